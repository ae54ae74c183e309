//! Slurm's short form of host names, such as `gpu[07-09,12],login` (man scontrol, "show hostnames").
//! Not what runs on them.

/// More hosts than any list has.
pub(super) const MAX_HOSTS: usize = 1 << 16;

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

/// All hosts of a list; none where it is garbled, or longer than any.
pub(super) fn all(list: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for word in words(list.trim())? {
        // Each bracket multiplies what stands before it.
        let mut names = vec![String::new()];
        let mut rest = word;
        while !rest.is_empty() {
            let (plain, bracket) = rest.split_once('[').unwrap_or((rest, ""));
            names.iter_mut().for_each(|name| name.push_str(plain));
            let Some((ranges, after)) = bracket.split_once(']') else { break };
            let numbers = numbers(ranges)?;
            if names.len() * numbers.len() > MAX_HOSTS {
                return None;
            }
            let with =
                |name: &String| numbers.iter().map(|n| format!("{name}{n}")).collect::<Vec<_>>();
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        hosts.append(&mut names);
    }
    let odd =
        |host: &String| host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == ']');
    (hosts.len() <= MAX_HOSTS && !hosts.iter().any(odd)).then_some(hosts)
}

/// What commas outside of brackets separate.
fn words(list: &str) -> Option<Vec<&str>> {
    let (mut words, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if !inside => inside = true,
            b']' if inside => inside = false,
            b'[' | b']' => return None,
            b',' if !inside => {
                words.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&list[start..]);
    (!inside).then_some(words)
}

/// `07-09,12` as 07, 08, 09, 12.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<usize>().ok()).flatten()
        };
        let (first, last, width) = (number(low)?, number(high)?, low.len());
        if last < first || last - first >= MAX_HOSTS {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    (numbers.len() <= MAX_HOSTS).then_some(numbers)
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
            assert_eq!(all(list).unwrap()[0], host, "{list}");
        }
        for garbled in
            ["", "[", "node[", "node[]", "node[-3]", "node[x]", ",node1", "node 1", "a]b"]
        {
            assert_eq!(first(garbled), None, "{garbled}");
            assert_eq!(all(garbled), None, "{garbled}");
        }
    }

    #[test]
    fn all_of_them() {
        for (list, hosts) in [
            ("node1", "node1"),
            ("gpu[07-09,12],login", "gpu07 gpu08 gpu09 gpu12 login"),
            ("node[9-11]", "node9 node10 node11"),
            ("rack[3-4]node[1-2]", "rack3node1 rack3node2 rack4node1 rack4node2"),
            (
                "node[098-101].example.org",
                "node098.example.org node099.example.org node100.example.org node101.example.org",
            ),
        ] {
            assert_eq!(all(list).unwrap().join(" "), hosts, "{list}");
        }
        for garbled in ["node[1-", "node[3-1]", "node[1-999999999]", "a[1-9999]b[1-9999]", "a,,b"] {
            assert_eq!(all(garbled), None, "{garbled}");
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
            for host in first(&text).into_iter().chain(all(&text).unwrap_or_default()) {
                prop_assert!(!host.is_empty() && !host.contains([',', '[', ']', ' ']), "{}", host);
            }
        }
    }
}
