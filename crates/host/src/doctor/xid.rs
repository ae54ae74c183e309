//! XIDs: the driver's error reports in the kernel's log. Meanings from NVIDIA's catalogue
//! (docs.nvidia.com/deploy/xid-errors). Only the numbers that concern hardware.

/// PCI address without its function, and number, of a line such as
/// `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.`
pub(super) fn parse(line: &str) -> Option<(String, u32)> {
    let rest = &line[line.find("NVRM: Xid (PCI:")? + "NVRM: Xid (PCI:".len()..];
    let (address, rest) = rest.split_once("): ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    // Some drivers write the function, too.
    let address = address.split('.').next().unwrap_or(address).to_ascii_lowercase();
    Some((address, rest[..digits].parse().ok()?))
}

/// The meaning of a number, and the remedy where the GPU, its links or its driver are at fault, not a
/// program.
pub(super) fn meaning(number: u32) -> (&'static str, Option<&'static str>) {
    const RESET: Option<&str> =
        Some("drain the node, reset the GPU or reboot; if it recurs, replace it");
    const CABLING: Option<&str> =
        Some("reset the GPU; if it recurs, check NVLink bridges, NVSwitches and the baseboard");
    match number {
        13 => ("a program's graphics or compute exception", None),
        31 => ("a program's memory page fault", None),
        43 => ("a program's channel was stopped", None),
        45 => ("a program was ended", None),
        48 => ("double-bit memory error", RESET),
        54 => ("auxiliary power is not connected", Some("check the power cables of the GPU")),
        62 => ("internal micro-controller halt", RESET),
        63 => ("a memory row was replaced", None),
        64 => ("a memory row could not be replaced", Some("replace the GPU (RMA)")),
        74 => ("NVLink error", CABLING),
        79 => ("the GPU has fallen off the bus", Some("reboot; check seating, power and cooling")),
        92 => ("many corrected memory errors", None),
        94 => {
            ("contained memory error", Some("restart the program; reset the GPU when it is free"))
        }
        95 => ("uncontained memory error", RESET),
        109 => ("context switch timed out", None),
        119 | 120 => ("the GPU's system processor does not answer", RESET),
        121 => ("corrected C2C link error", None),
        140 => ("unrecovered memory error", RESET),
        144..=150 => ("NVLink 5 error", CABLING),
        _ => ("see NVIDIA's XID catalogue", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_several_drivers() {
        let of = |line| parse(line);
        assert_eq!(
            of(
                "4,2381,99,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', GPU has fallen off the bus."
            ),
            Some(("0000:3b:00".to_owned(), 79))
        );
        assert_eq!(
            of("NVRM: Xid (PCI:0000:01:00.0): 31, pid=7"),
            Some(("0000:01:00".to_owned(), 31))
        );
        assert_eq!(of("NVRM: GPU at PCI:0000:3b:00: GPU-x"), None);
        assert_eq!(of("NVRM: Xid (PCI:0000:3b:00): x"), None);
    }

    proptest! {
        #[test]
        fn any_line(line in ".{0,80}", tail in ".{0,20}") {
            let _ = parse(&line);
            let _ = parse(&format!("NVRM: Xid (PCI:{line}): {tail}"));
        }

        #[test]
        fn what_is_written_is_read(bus: u8, number in 1..200_u32) {
            let line = format!("3,1,2,-;NVRM: Xid (PCI:0000:{bus:02x}:00): {number}, pid=1");
            prop_assert_eq!(parse(&line), Some((format!("0000:{bus:02x}:00"), number)));
        }
    }
}
