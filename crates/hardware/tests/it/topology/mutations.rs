//! A thousand damaged files: none brings the readers down or holds them up, and many still mean
//! something.

use super::*;

/// Choices from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }
}

/// One of the ways in which files are damaged: lines lost, repeated, swapped or cut, a byte or a number
/// changed, the end missing.
fn damage(text: &str, draw: &mut Draw) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (a, b) = (draw.below(lines.len()), draw.below(lines.len()));
    match draw.below(8) {
        0 => drop(lines.remove(a)),
        1 => lines.insert(b, lines[a].clone()),
        2 => lines.swap(a, b),
        3 => {
            let at = lines[a].floor_char_boundary(draw.below(lines[a].len() + 1));
            lines[a].truncate(at);
        }
        4 => lines.truncate(a + 1),
        5 | 6 => {
            let digits: Vec<usize> = lines[a]
                .bytes()
                .enumerate()
                .filter(|(_, c)| c.is_ascii_digit())
                .map(|d| d.0)
                .collect();
            if let Some(at) = digits.get(draw.below(digits.len())) {
                let new = ["0", "7", "-", "99999999999999999999", "x", ""][draw.below(6)];
                lines[a].replace_range(*at..at + 1, new);
            }
        }
        _ => {
            let at = lines[a].floor_char_boundary(draw.below(lines[a].len() + 1));
            let new = ["<", ">", "\"", "\u{0}", "\u{fe0f}", "\t", "/>", "NV9", "&"][draw.below(9)];
            lines[a].insert_str(at, new);
        }
    }
    lines.join("\n")
}

/// Everything that is done with what was read.
fn use_it(input: &Input) {
    match input {
        Input::System(system) => {
            assert!(Paths::of(system).matrix().endpoints.len() <= system.devices.len() * 4096);
            let _ = (of_system(system), machine_of_system(system, "damaged"));
            let again = recognise(&write(system));
            assert_eq!(again, Ok(Input::System(system.clone())), "{}", write(system));
        }
        Input::Matrices(all) => {
            assert!(!all.is_empty());
            all.iter().for_each(|matrix| {
                let _ = (of_matrix(matrix), machine_of_matrix(matrix, "damaged"));
            });
        }
        Input::Graphs(_) => {}
    }
}

/// What takes longer would hold the program up.
const WATCHDOG: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_damaged_files() {
    let mut draw = Draw(7);
    let mut read = 0;
    for _ in 0..1000 {
        let mut text = file(FILES[draw.below(FILES.len())].0).to_owned();
        for _ in 0..=draw.below(2) {
            text = damage(&text, &mut draw);
        }
        let begun = Instant::now();
        match recognise(&text) {
            Ok(input) => {
                read += 1;
                use_it(&input);
            }
            Err(why) => assert_eq!(why.to_string().lines().count(), 1, "{why}"),
        }
        assert!(begun.elapsed() < WATCHDOG, "{text}");
    }
    assert!(read >= 300, "only {read} of 1000 were read");
}

/// The largest that is taken at all does not hold the program up either.
#[test]
fn as_many_devices_as_are_taken() {
    let mut text = "<system version=\"1\"><cpu numaid=\"0\">".to_owned();
    for at in 0..1300 {
        let _ = write!(
            text,
            "<pci busid=\"0000:{at:04x}\"><gpu dev=\"{at}\"><nvlink target=\"0000:0000\" count=\"1\"/></gpu></pci>"
        );
    }
    text.push_str("</cpu></system>");
    let begun = Instant::now();
    let input = recognise(&text).expect("a topology");
    use_it(&input);
    assert!(begun.elapsed() < WATCHDOG, "{:?}", begun.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any tree that the model can hold and XML can say comes back.
    #[test]
    fn round_trip(seed: u64, parents in prop::collection::vec(0..9_usize, 1..24)) {
        let system = any_system(seed, &parents);
        let written = write(&system);
        prop_assert_eq!(recognise(&written), Ok(Input::System(system)), "{}", written);
    }

    #[test]
    fn any_text(text in "[<>/a-zA-Z0-9=\" \\t\\n|:_-]{0,200}") {
        if let Ok(input) = recognise(&text) {
            use_it(&input);
        }
    }
}

fn any_system(seed: u64, parents: &[usize]) -> System {
    use busbw_hardware::topology::{
        Cpu, Device, Ends, Gpu, GpuLink, GpuLinkKind, Net, NetKind, Parent, PcieReading,
    };
    let mut draw = Draw(seed);
    let mut maybe = |end: usize| (draw.below(3) > 0).then(|| draw.below(end));
    let mut system = System { version: 1, ..System::default() };
    for numa in 0..1 + maybe(3).unwrap_or(0) {
        system.cpus.push(Cpu {
            numa: Some(numa as i32 - 1),
            affinity: maybe(9).map(|mask| format!("{mask:08x},ffff")),
            vendor: maybe(2).map(|_| "Genuine<&\"Intel".to_owned()),
            model: maybe(300).map(|model| model as i64),
            host_hash: maybe(usize::MAX).map(|hash| hash as u64),
            ..Cpu::default()
        });
    }
    for (at, parent) in parents.iter().enumerate() {
        // Children of one parent stand together in XML, so that only the last chain can grow.
        let last = system.devices.len().checked_sub(1);
        let chain = last.map(|last| {
            let mut chain = system.above(last);
            chain.insert(0, last);
            chain
        });
        let cpus = system.cpus.len();
        let newest = last.map_or(0, |last| {
            match system.devices[*chain.iter().flatten().last().unwrap_or(&last)].parent {
                Parent::Cpu(cpu) => cpu,
                Parent::Device(_) => 0,
            }
        });
        let parent = match chain.as_ref().and_then(|chain| chain.get(*parent)) {
            Some(up) => Parent::Device(*up),
            None => Parent::Cpu((newest + parent % 2).min(cpus - 1)),
        };
        let reading = PcieReading {
            generation: maybe(6).map(|g| g as u8 + 1),
            width: maybe(3).map(|w| [4, 8, 16][w]),
        };
        let known = reading != PcieReading::default();
        let gpu = maybe(4).filter(|kind| *kind > 1).map(|_| Gpu {
            index: maybe(9).map(|n| n as u32),
            sm: maybe(100).map(|n| n as u32),
            gdr: maybe(2).map(|n| n == 1),
            c2c: maybe(90_000).map(|n| (n as u32, 10)),
            links: (0..maybe(3).unwrap_or(0))
                .map(|link| GpuLink {
                    kind: [GpuLinkKind::NvLink, GpuLinkKind::Xgmi][link % 2],
                    target: format!("0000:{link:02x}:00.0"),
                    count: maybe(19).unwrap_or(1) as u32,
                    class: Some(0x03_0200),
                })
                .collect(),
            ..Gpu::default()
        });
        let nets = (0..maybe(3).unwrap_or(0)).map(|port| Net {
            name: format!("mlx5_{port}"),
            mbps: maybe(400_000).map(|n| n as u32 + 1),
            port: Some(port as u32),
            guid: maybe(usize::MAX).map(|n| n as u64),
            latency: maybe(9).map(|n| n as f64 / 8.0),
            kind: Some(if port == 0 { NetKind::Socket } else { NetKind::Infiniband }),
            ..Net::default()
        });
        let nets = nets.collect();
        system.devices.push(Device {
            address: format!("0000:{at:02x}:00.0"),
            parent,
            class: Some(0x02_0700).filter(|_| known || at % 2 == 0).or(Some(0x02_0700)),
            vendor: maybe(0xffff).map(|n| n as u16),
            device: None,
            subsystem_vendor: None,
            subsystem_device: maybe(0xffff).map(|n| n as u16),
            link: Ends { now: reading, ..Ends::default() },
            host_bridge: None,
            peers: (0..maybe(2).unwrap_or(0)).map(|n| format!("ffff:ff:0{n}.0")).collect(),
            gpu,
            nets,
        });
    }
    system
}
