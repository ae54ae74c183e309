//! Slurm's short form of host names, such as `gpu[07-09,12],login` (man scontrol, "show hostnames").
//! Not the whole list: who meets needs the first host only.

/// The first host of a list; none where it is garbled.
pub(super) fn first(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        if !rest[end..].starts_with('[') {
            break;
        }
        let (numbers, after) = rest[end + 1..].split_once(']')?;
        let number = numbers.split([',', '-']).next()?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        host.push_str(number);
        rest = after;
    }
    let odd = |c: char| c.is_whitespace() || c == ']';
    (!host.is_empty() && !host.contains(odd)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_slurm_writes_them() {
        for (list, host) in [
            ("node1", "node1"),
            ("node1,node2", "node1"),
            ("node[1-4]", "node1"),
            ("node[007,010-012]", "node007"),
            ("rack[3-4]node[01-16],login", "rack3node01"),
            ("node[5].example.org", "node5.example.org"),
            ("a-b[2-3]", "a-b2"),
        ] {
            assert_eq!(first(list).as_deref(), Some(host), "{list}");
        }
        for garbled in
            ["", "[", "node[", "node[]", "node[-3]", "node[x]", ",node1", "node 1", "a]b"]
        {
            assert_eq!(first(garbled), None, "{garbled}");
        }
    }

    proptest! {
        /// However a list goes on, its first host is the first number of its first range.
        #[test]
        fn the_first_number_of_the_first_range(
            prefix in "[a-z][a-z0-9-]{0,8}",
            suffix in "[a-z.]{0,4}",
            low in "[0-9]{1,4}",
            more in prop::collection::vec("[0-9]{1,4}(-[0-9]{1,4})?", 0..4),
            others in prop::collection::vec("[a-z]{1,5}(\\[[0-9]{1,3}-[0-9]{1,3}\\])?", 0..3),
            range in prop::option::of("[0-9]{1,4}"),
        ) {
            let mut numbers = vec![range.map_or(low.clone(), |high| format!("{low}-{high}"))];
            numbers.extend(more);
            let mut hosts = vec![format!("{prefix}[{}]{suffix}", numbers.join(","))];
            hosts.extend(others);
            prop_assert_eq!(first(&hosts.join(",")), Some(format!("{prefix}{low}{suffix}")));
        }

        #[test]
        fn garbage_gives_a_plain_name_or_nothing(text in "\\PC{0,40}") {
            if let Some(host) = first(&text) {
                prop_assert!(!host.is_empty() && !host.contains([',', '[', ']', ' ']), "{}", host);
            }
        }
    }
}
