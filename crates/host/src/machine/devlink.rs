//! devlink: what a network adapter's driver says of its firmware and of its parameters, asked of the kernel by generic netlink.
//! Nothing is set. Format: Linux, include/uapi/linux/devlink.h and genetlink.h; net/devlink/dev.c, param.c.

use rustix::{
    io::{self, Errno},
    net::netlink::GENERIC,
};

use super::netlink::{self, Attributes};

/// What a driver says of its adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devlink {
    /// Versions of the firmware that runs, by their names: `fw.version`, `fw.psid`.
    pub running: Vec<(String, String)>,
    /// Those of the firmware that is stored, and runs after a reset.
    pub stored: Vec<(String, String)>,
    /// Whether RoCE is on (`enable_roce`), as far as the driver has that parameter.
    pub roce: Option<bool>,
}

/// GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// DEVLINK_CMD_PARAM_GET, DEVLINK_CMD_INFO_GET; their answers have the same.
const GET_PARAMETER: u8 = 38;
const GET_INFORMATION: u8 = 51;
/// DEVLINK_ATTR_BUS_NAME, DEVLINK_ATTR_DEV_NAME.
const BUS: u16 = 1;
const DEVICE: u16 = 2;
/// DEVLINK_ATTR_PARAM, and in it _PARAM_NAME, _PARAM_VALUES_LIST, _PARAM_VALUE, _PARAM_VALUE_DATA: a flag, there or not.
const PARAMETER: u16 = 80;
const PARAMETER_NAME: u16 = 81;
const VALUES: u16 = 84;
const VALUE: u16 = 85;
const DATA: u16 = 86;
/// DEVLINK_ATTR_INFO_VERSION_RUNNING, _STORED, and in them _NAME, _VALUE.
const RUNNING: u16 = 101;
const STORED: u16 = 102;
const VERSION_NAME: u16 = 103;
const VERSION_VALUE: u16 = 104;
/// The parameter's name (devlink-params.rst).
const ROCE: &str = "enable_roce";

/// Asks the kernel of the adapter at a PCI address. `None` where its driver has no devlink or does not answer.
pub fn devlink(address: &str) -> Option<Devlink> {
    let address = address.to_owned();
    netlink::in_time(move || {
        let family = family(&asked(CONTROL, GET_FAMILY, &netlink::text(FAMILY_NAME, "devlink"))?)?;
        let device = [netlink::text(BUS, "pci"), netlink::text(DEVICE, &address)].concat();
        let (running, stored) = versions(&asked(family, GET_INFORMATION, &device)?, family)?;
        let named = [device, netlink::text(PARAMETER_NAME, ROCE)].concat();
        // Not every driver has it.
        let roce = asked(family, GET_PARAMETER, &named);
        let roce = roce.and_then(|message| flag(&message, family)).ok();
        Ok(Devlink { running, stored, roce })
    })
}

fn asked(kind: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    // The command, the family's version, and two bytes of nothing (struct genlmsghdr).
    let body = [&[command, 1, 0, 0][..], attributes].concat();
    netlink::asked(Some(GENERIC), &netlink::message(kind, &body))
}

/// The attributes of an answer.
fn attributes(message: &[u8], kind: u16) -> io::Result<Attributes<'_>> {
    Ok(Attributes(netlink::body(message, kind)?.get(4..).ok_or(Errno::BADMSG)?))
}

/// The number by which devlink is asked.
fn family(message: &[u8]) -> io::Result<u16> {
    attributes(message, CONTROL)?
        .find_map(|(kind, bytes)| match (kind, bytes) {
            (FAMILY_ID, [a, b, ..]) => Some(u16::from_ne_bytes([*a, *b])),
            _ => None,
        })
        .ok_or(Errno::BADMSG)
}

type Versions = Vec<(String, String)>;

/// What runs, and what is stored.
fn versions(message: &[u8], family: u16) -> io::Result<(Versions, Versions)> {
    let (mut running, mut stored) = (Versions::new(), Versions::new());
    for (kind, bytes) in attributes(message, family)? {
        let versions = match kind {
            RUNNING => &mut running,
            STORED => &mut stored,
            _ => continue,
        };
        let of = |wanted| {
            let found = Attributes(bytes).find(|(kind, _)| *kind == wanted);
            found.map(|(_, text)| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
        };
        versions.extend(of(VERSION_NAME).zip(of(VERSION_VALUE)));
    }
    Ok((running, stored))
}

/// Whether the parameter is on.
fn flag(message: &[u8], family: u16) -> io::Result<bool> {
    let within = |bytes, wanted| Attributes(bytes).find(|(kind, _)| *kind == wanted);
    let parameter = attributes(message, family)?.find(|(kind, _)| *kind == PARAMETER);
    let values = parameter.and_then(|(_, bytes)| within(bytes, VALUES)).ok_or(Errno::BADMSG)?;
    let value = within(values.1, VALUE).ok_or(Errno::BADMSG)?;
    Ok(within(value.1, DATA).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::netlink::{ERROR, attribute, message, text},
        *,
    };

    const FAMILY: u16 = 21;

    fn answer(attributes: &[Vec<u8>]) -> Vec<u8> {
        message(FAMILY, &[vec![GET_INFORMATION, 1, 0, 0], attributes.concat()].concat())
    }

    fn version(kind: u16, name: &str, value: &str) -> Vec<u8> {
        attribute(kind | 0x8000, &[text(VERSION_NAME, name), text(VERSION_VALUE, value)].concat())
    }

    fn parameter(is_on: bool) -> Vec<u8> {
        let data = if is_on { attribute(DATA, &[]) } else { Vec::new() };
        // DEVLINK_ATTR_PARAM_VALUE_CMODE: driverinit.
        let value = attribute(VALUE | 0x8000, &[data, attribute(87, &[1])].concat());
        let parts =
            [text(PARAMETER_NAME, ROCE), attribute(83, &[6]), attribute(VALUES | 0x8000, &value)];
        answer(&[attribute(PARAMETER | 0x8000, &parts.concat())])
    }

    #[test]
    fn what_a_driver_says() {
        let said = answer(&[
            text(BUS, "pci"),
            text(98, "mlx5_core"),
            version(100, "fw.psid", "MT_0000000838"),
            version(RUNNING, "fw.version", "28.39.1002"),
            version(STORED, "fw.version", "28.43.2026"),
        ]);
        let of = |value: &str| vec![("fw.version".to_owned(), value.to_owned())];
        assert_eq!(versions(&said, FAMILY), Ok((of("28.39.1002"), of("28.43.2026"))));
        assert_eq!(flag(&parameter(true), FAMILY), Ok(true));
        assert_eq!(flag(&parameter(false), FAMILY), Ok(false));
        assert_eq!(flag(&answer(&[]), FAMILY), Err(Errno::BADMSG));
        let refused = message(ERROR, &(-95_i32).to_ne_bytes());
        assert_eq!(versions(&refused, FAMILY), Err(Errno::OPNOTSUPP));
    }

    /// The kernel understands the questions: no adapter is there.
    #[test]
    fn this_kernel_is_asked() {
        assert_eq!(devlink("ffff:ff:1f.7"), None);
        // A sandbox may refuse the socket, and a kernel may have no devlink.
        let Ok(said) = asked(CONTROL, GET_FAMILY, &text(FAMILY_NAME, "devlink")) else { return };
        let Ok(number) = family(&said) else { return };
        let device = [text(BUS, "pci"), text(DEVICE, "ffff:ff:1f.7")].concat();
        let none = versions(&asked(number, GET_INFORMATION, &device).unwrap(), number);
        assert!(matches!(none, Err(Errno::NODEV | Errno::PERM)), "{none:?}");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let whole = message(FAMILY, &bytes);
            for said in [&bytes, &whole] {
                let _ = (versions(said, FAMILY), flag(said, FAMILY), family(said));
            }
        }
    }
}
