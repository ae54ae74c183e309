//! Data center bridging (DCB) of an Ethernet interface, asked of the kernel by netlink: the priorities that pause (PFC), and
//! the priorities of DSCPs.
//! Nothing is set, and switches are not asked. Format: Linux, include/uapi/linux/dcbnl.h; net/dcb/dcbnl.c, dcb_doit.

use rustix::io::{self, Errno};

use super::netlink::{self, Attributes};

/// What an interface's driver does by priority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridging {
    /// By priority, whether it is paused where a receiver's buffer is full (PFC); `None` where the driver does not say.
    pub pfc: Option<[bool; 8]>,
    /// DSCPs, and the priority of each, as far as they are listed.
    pub dscp: Vec<(u8, u8)>,
}

/// RTM_GETDCB (include/uapi/linux/rtnetlink.h); the answer has the same type.
const GET_DCB: u16 = 78;
/// DCB_CMD_IEEE_GET.
const IEEE_GET: u8 = 21;
/// DCB_ATTR_IFNAME, DCB_ATTR_IEEE.
const NAME: u16 = 1;
const IEEE: u16 = 13;
/// DCB_ATTR_IEEE_PFC (struct ieee_pfc), DCB_ATTR_IEEE_APP_TABLE, DCB_ATTR_IEEE_APP (struct dcb_app).
const PFC: u16 = 2;
const APP_TABLE: u16 = 3;
const APP: u16 = 1;
/// IEEE_8021QAZ_APP_SEL_DSCP.
const BY_DSCP: u8 = 5;

/// Asks the kernel. `None` where the driver has no such settings or does not answer, or there is no such interface or no netlink.
pub fn bridging(interface: &str) -> Option<Bridging> {
    let interface = interface.to_owned();
    netlink::in_time(move || answer(&asked(&interface)?))
}

fn asked(interface: &str) -> io::Result<Vec<u8>> {
    // The family, the command and two bytes of nothing (struct dcbmsg).
    let body = [&[0, IEEE_GET, 0, 0][..], &netlink::text(NAME, interface)].concat();
    netlink::asked(None, &netlink::message(GET_DCB, &body))
}

/// Reads an answer.
///
/// # Errors
/// What the kernel says: `OPNOTSUPP` of a driver without DCB, `NODEV`; `BADMSG` of what is no answer.
fn answer(message: &[u8]) -> io::Result<Bridging> {
    match netlink::body(message, GET_DCB)? {
        [_, IEEE_GET, _, _, attributes @ ..] => Ok(of_attributes(attributes)),
        _ => Err(Errno::BADMSG),
    }
}

fn of_attributes(attributes: &[u8]) -> Bridging {
    let ieee = Attributes(attributes).find(|(kind, _)| *kind == IEEE).map_or(&[][..], |one| one.1);
    let mut bridging = Bridging::default();
    for (kind, bytes) in Attributes(ieee) {
        match (kind, bytes) {
            (PFC, [_, enabled, ..]) => {
                bridging.pfc = Some(std::array::from_fn(|priority| enabled >> priority & 1 == 1));
            }
            (APP_TABLE, table) => {
                let entries = Attributes(table).filter(|(kind, _)| *kind == APP);
                bridging.dscp.extend(entries.filter_map(|(_, entry)| match entry {
                    [BY_DSCP, priority @ 0..8, a, b] => {
                        let dscp = u8::try_from(u16::from_ne_bytes([*a, *b])).ok();
                        dscp.filter(|dscp| *dscp < 64).map(|dscp| (dscp, *priority))
                    }
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    bridging
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::netlink::{ERROR, attribute, message},
        *,
    };

    /// As dcbnl_ieee_fill writes it: the interface's name, then ETS, PFC and the table.
    fn of_a_driver(enabled: u8, table: &[(u8, u8, u16)]) -> Vec<u8> {
        let mut pfc = vec![8, enabled, 0, 0];
        pfc.resize(136, 0);
        let entries = table.iter().flat_map(|(selector, priority, protocol)| {
            let [a, b] = protocol.to_ne_bytes();
            attribute(APP, &[*selector, *priority, a, b])
        });
        let ieee = [
            attribute(1, &[8; 59]),
            attribute(PFC, &pfc),
            attribute(APP_TABLE | 0x8000, &entries.collect::<Vec<u8>>()),
        ];
        let body =
            [vec![0, IEEE_GET, 0, 0], attribute(NAME, b"eth0\0"), attribute(IEEE, &ieee.concat())];
        message(GET_DCB, &body.concat())
    }

    #[test]
    fn what_a_driver_says() {
        let found = answer(&of_a_driver(0b1000, &[(5, 3, 26), (1, 4, 0x8906), (5, 6, 48)]));
        let found = found.unwrap();
        assert_eq!(found.pfc, Some(std::array::from_fn(|priority| priority == 3)));
        assert_eq!(found.dscp, [(26, 3), (48, 6)]);
        let no_pfc = message(GET_DCB, &[vec![0, IEEE_GET, 0, 0], attribute(IEEE, &[])].concat());
        assert_eq!(answer(&no_pfc), Ok(Bridging::default()));
    }

    #[test]
    fn what_the_kernel_refuses() {
        let unsupported = message(ERROR, &(-95_i32).to_ne_bytes());
        assert_eq!(answer(&unsupported), Err(Errno::OPNOTSUPP));
        for bad in [vec![], vec![0; 15], message(3, &[0; 4]), message(GET_DCB, &[0, 7, 0, 0])] {
            assert_eq!(answer(&bad), Err(Errno::BADMSG));
        }
    }

    /// The kernel understands the question: it knows which of two names there is.
    #[test]
    fn this_kernel_is_asked() {
        assert_eq!(bridging("lo"), None);
        // A sandbox may refuse the socket.
        let Ok(of_lo) = asked("lo") else { return };
        assert_eq!(answer(&of_lo), Err(Errno::OPNOTSUPP));
        // A kernel without DCB says the same of any name.
        let of_none = answer(&asked("no-such-device").unwrap());
        assert!(matches!(of_none, Err(Errno::NODEV | Errno::OPNOTSUPP)), "{of_none:?}");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&bytes);
            for kind in [GET_DCB, ERROR] {
                let _ = answer(&message(kind, &bytes));
            }
            let _ = answer(&message(GET_DCB, &[vec![0, IEEE_GET, 0, 0], bytes].concat()));
        }

        #[test]
        fn cut_anywhere(enabled: u8, table in prop::collection::vec((0..8_u8, any::<u8>(), any::<u16>()), 0..20), at: prop::sample::Index) {
            let whole = of_a_driver(enabled, &table);
            let found = answer(&whole).unwrap();
            prop_assert!(found.dscp.iter().all(|(dscp, priority)| *dscp < 64 && *priority < 8));
            prop_assert_eq!(answer(&whole[..at.index(whole.len())]), Err(Errno::BADMSG));
        }
    }
}
