//! From launches over each network between hosts to the line of transports: what each gives, whether the default is
//! among the fast ones, and whether networks of one rate are alike.
//! Not which networks there are, and not the evidence of what ran (`Stages::transport`).

use busbw_core::quantity::{bytes, percent, rate};
use busbw_stats::median;

use super::{
    collective::{CollectiveFigures, Failure, largest, side},
    report::{Check, CheckLine, Figure, Verdict},
};

/// A transport that is this many times as fast as the default shows that the default is a wrong choice. Launches of one
/// transport differ by far less, and no transport is proposed for a few percent.
const FASTER: f64 = 1.5;
/// A network that reaches less than this share of what others of its rate reach is slow. Sockets that processors drive
/// differ by a tenth from launch to launch.
const ALIKE: f64 = 0.7;
/// Limits that differ by less are those of networks of one rate.
const SAME_LIMIT: f64 = 0.01;
/// Transports that a line names; of the others it says how many there are.
const MAX_NAMED: usize = 12;

/// A transport between the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedTransport {
    /// Its name, as `busbw transports` has it: `socket:eth0`, `ib:mlx5_0`.
    pub name: String,
    /// Networks of one kind are compared with each other: `socket`, `ib`, `roce`; none for several ports at once, and for
    /// what there is once.
    pub kind: Option<String>,
    /// Why it cannot run here.
    pub waived: Option<String>,
}

/// One launch of the collective over a transport.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportLaunch {
    /// What it gave.
    pub outcome: Result<TransportFigures, Failure>,
    /// Seconds that it took.
    pub took_s: f64,
}

/// The figures of a launch that completed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TransportFigures {
    /// The collective's.
    pub collective: CollectiveFigures,
    /// What the hardware allows over this transport, GB/s of bus bandwidth; none where it is not known.
    pub limit: Option<f64>,
    /// What ran instead, or why it is not proven which transport ran; none where it is proven that this one did.
    pub unproven: Option<String>,
}

/// All launches over one transport.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tried {
    pub(super) transport: NamedTransport,
    pub(super) launches: Vec<TransportLaunch>,
}

impl Tried {
    fn name(&self) -> &str {
        &self.transport.name
    }

    /// Whether it can run here, and no launch has shown how: there was no time, or the launcher failed.
    fn is_open(&self) -> bool {
        let is_tool = |launch: &TransportLaunch| matches!(launch.outcome, Err(Failure::Tool(_)));
        self.transport.waived.is_none() && self.launches.iter().all(is_tool)
    }

    fn figures(&self) -> impl Iterator<Item = &TransportFigures> {
        self.launches.iter().filter_map(|launch| launch.outcome.as_ref().ok())
    }

    /// Bus bandwidths of the largest size, GB/s, one a launch; empty unless it is proven that the transport ran.
    fn proven(&self) -> Vec<f64> {
        if self.figures().any(|figures| figures.unproven.is_some()) {
            return Vec::new();
        }
        self.figures().filter_map(|figures| busbw(&figures.collective)).collect()
    }

    fn limit(&self) -> Option<f64> {
        self.figures().find_map(|figures| figures.limit)
    }

    /// Whether the other one is a network of the same kind and rate.
    fn is_like(&self, other: &Tried) -> bool {
        let same = |a: f64, b: f64| (a / b - 1.0).abs() < SAME_LIMIT;
        let limits = self.limit().zip(other.limit());
        self.name() != other.name()
            && self.transport.kind.is_some()
            && self.transport.kind == other.transport.kind
            && limits.is_some_and(|(one, two)| same(one, two))
    }

    /// One transport in the line's text.
    fn words(&self) -> String {
        let name = self.name();
        let proven = self.proven();
        if let Some(usual) = median(&proven) {
            let share = self.limit().map(|limit| percent(usual / limit * 100.0));
            let share = share.map_or(String::new(), |share| format!(" ({share} % of its limit)"));
            return format!("{name} {} GB/s{share}", rate(usual));
        }
        let why = self.launches.iter().find_map(|launch| match &launch.outcome {
            Ok(figures) => figures.unproven.as_deref().map(|why| format!("not proven: {why}")),
            Err(Failure::Tool(text) | Failure::Job { text, .. }) => Some(format!("failed: {text}")),
        });
        format!("{name} {}", why.as_deref().unwrap_or("was not measured"))
    }
}

/// The bus bandwidth of a launch's largest size, GB/s.
fn busbw(figures: &CollectiveFigures) -> Option<f64> {
    largest(&figures.side).and_then(|(_, times)| times.busbw)
}

/// A fault that launches show so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// The default is slower than this transport.
    Faster {
        /// Its place.
        place: usize,
    },
    /// This network is slower than the others of its rate.
    Slow {
        /// Its place.
        place: usize,
        /// The places of the others.
        others: Vec<usize>,
    },
}

impl Fault {
    /// How many launches show it: those of the transport, if as many of another one stand against them.
    fn launches(&self, tried: &[Tried]) -> usize {
        let of = |place: &usize| tried[*place].proven().len();
        match self {
            Fault::Faster { place } => of(place),
            Fault::Slow { place, others } => {
                of(place).min(others.iter().map(of).max().unwrap_or(0))
            }
        }
    }

    /// The transports whose second launch shows whether it stays.
    pub(super) fn places(&self) -> Vec<usize> {
        match self {
            Fault::Faster { place } => vec![*place],
            // One of the others suffices: if it stays fast, the slow one is not slow because all are.
            Fault::Slow { place, others } => {
                std::iter::once(*place).chain(others.first().copied()).collect()
            }
        }
    }
}

/// What the launches show. `default` has the launches of what the library chooses.
pub(super) fn fault(default: &[&CollectiveFigures], tried: &[Tried]) -> Option<Fault> {
    let own = default.iter().filter_map(|figures| busbw(figures)).reduce(f64::max);
    let least = |of: &Tried| of.proven().into_iter().reduce(f64::min);
    let each = || tried.iter().enumerate().filter_map(|(place, of)| Some((place, of, least(of)?)));
    let fastest = each().max_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((place, _, fast)) = fastest
        && own.is_some_and(|own| fast > FASTER * own)
    {
        return Some(Fault::Faster { place });
    }
    each().find_map(|(place, of, _)| {
        let most = of.proven().into_iter().reduce(f64::max)?;
        let mut others: Vec<(usize, f64)> =
            each().filter(|(_, other, _)| of.is_like(other)).map(|(at, _, v)| (at, v)).collect();
        let usual = median(&others.iter().map(|(_, value)| *value).collect::<Vec<f64>>())?;
        others.sort_by(|a, b| b.1.total_cmp(&a.1));
        let others = others.into_iter().map(|(at, _)| at).collect();
        (most < ALIKE * usual).then_some(Fault::Slow { place, others })
    })
}

/// The line of the transports.
pub(super) fn line(default: &[&CollectiveFigures], tried: &[Tried]) -> CheckLine {
    let took_s = tried.iter().flat_map(|of| &of.launches).map(|launch| launch.took_s).sum();
    CheckLine { took_s, ..judged(default, tried) }
}

fn judged(default: &[&CollectiveFigures], tried: &[Tried]) -> CheckLine {
    let measured: Vec<&Tried> = tried.iter().filter(|of| !of.launches.is_empty()).collect();
    if measured.is_empty() && tried.iter().any(Tried::is_open) {
        let text = "there was no time left for transports";
        return CheckLine::new(Check::Transports, Verdict::CannotTell, text);
    }
    if measured.is_empty() {
        let why = tried.iter().find_map(|of| of.transport.waived.as_deref());
        let text = match why {
            None => "the hosts have no network that can be measured by itself".to_owned(),
            Some(why) => format!("no network can be measured by itself: {why}"),
        };
        return CheckLine::new(Check::Transports, Verdict::Waived, text);
    }
    let whole = side(default);
    let own = largest(&whole).and_then(|(point, times)| Some((point.size, times.busbw?)));
    let at = own.map_or(String::new(), |(size, _)| format!(" at {}", bytes(size)));
    let shown = own.map_or("-".to_owned(), |(_, busbw)| rate(busbw));
    if let Some(fault) = fault(default, tried) {
        let times = fault.launches(tried) as u32;
        return fault_line(&fault, tried, times, &format!("{shown} GB/s{at}"));
    }
    let mut words: Vec<String> = measured.iter().map(|of| of.words()).collect();
    let more = words.len().saturating_sub(MAX_NAMED);
    words.truncate(MAX_NAMED);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    let mut text = format!("default {shown} GB/s{at}; {}", words.join(", "));
    // Of a transport that was not measured, or that nobody proved to run, nothing can be said.
    let any = measured.iter().any(|of| !of.proven().is_empty());
    let late: Vec<&str> = tried.iter().filter(|of| of.is_open()).map(Tried::name).collect();
    if !late.is_empty() {
        text.push_str(&format!("; there was no time for {}", late.join(", ")));
    }
    let verdict = if any && late.is_empty() { Verdict::Pass } else { Verdict::CannotTell };
    CheckLine::new(Check::Transports, verdict, text)
}

fn fault_line(fault: &Fault, tried: &[Tried], times: u32, own: &str) -> CheckLine {
    let of = |place: usize| (tried[place].name(), median(&tried[place].proven()).unwrap_or(0.0));
    let launches = match times {
        0 | 1 => "there was one launch of each".to_owned(),
        _ => format!("{times} launches of each show it"),
    };
    let confirm = |names: &[&str]| format!("busbw transports --only {}", names.join(","));
    let (text, value, wanted, remedy, confirm) = match fault {
        Fault::Faster { place } => {
            let (name, fast) = of(*place);
            let text = format!(
                "the default reaches {own}, and {name} {} GB/s: the default does not use it; {launches}",
                rate(fast)
            );
            let remedy = "NCCL_DEBUG=INFO says which network NCCL chose; look for what keeps it from this one: NCCL_NET, NCCL_IB_DISABLE, NCCL_SOCKET_IFNAME, a library that is missing";
            (text, fast, None, remedy.to_owned(), confirm(&[name, "default"]))
        }
        Fault::Slow { place, others } => {
            let (name, slow) = of(*place);
            let fast: Vec<f64> = others.iter().map(|at| of(*at).1).collect();
            let usual = median(&fast).unwrap_or(0.0);
            let mut names: Vec<&str> = others.iter().map(|at| of(*at).0).collect();
            let text = format!(
                "{name} reaches {} GB/s where {} of the same rate {} {} GB/s; {launches}",
                rate(slow),
                names.join(", "),
                if names.len() == 1 { "reaches" } else { "reach" },
                rate(usual)
            );
            names.insert(0, name);
            let remedy = format!(
                "look at cable, port and switch of {name} on each host: `busbw pairs` over it names the host"
            );
            (text, slow, Some(usual), remedy, confirm(&names))
        }
    };
    let figure = Figure { value, unit: "GB/s".to_owned(), size: None, wanted };
    CheckLine::fault(Check::Transports, times, text)
        .figure(Some(figure))
        .advice(Some(remedy), Some(confirm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::figures;

    /// Launches of so many GB/s at the limit of 12.5.
    fn tried(name: &str, launches: &[f64]) -> Tried {
        let kind = name.split(':').next().map(str::to_owned);
        let launch = |gbps: &f64| {
            let collective = figures(1100.0 / gbps);
            let of = TransportFigures { collective, limit: Some(12.5), unproven: None };
            TransportLaunch { outcome: Ok(of), took_s: 3.0 }
        };
        let transport = NamedTransport { name: name.to_owned(), kind, waived: None };
        Tried { transport, launches: launches.iter().map(launch).collect() }
    }

    fn said(own: f64, tried: &[Tried]) -> CheckLine {
        let own = [figures(1100.0 / own), figures(1100.0 / own)];
        line(&own.iter().collect::<Vec<_>>(), tried)
    }

    #[test]
    fn what_each_network_gives() {
        let line = said(10.0, &[tried("ib:mlx5_0", &[10.0]), tried("socket:eth0", &[2.0])]);
        assert_eq!((line.verdict, line.took_s), (Verdict::Pass, 6.0));
        assert_eq!(
            line.text,
            "default 10.00 GB/s at 8 MiB; ib:mlx5_0 10.00 GB/s (80.0 % of its limit), socket:eth0 2.00 GB/s (16.0 % of its limit)"
        );
    }

    #[test]
    fn a_choice_that_is_slow_blocks_the_second_time() {
        let ib = |launches: &[f64]| vec![tried("ib:mlx5_0", launches)];
        assert_eq!(said(2.0, &ib(&[10.0])).verdict, Verdict::CannotTell);
        let line = said(2.0, &ib(&[10.0, 9.0]));
        assert!(line.blocks(), "{line:?}");
        assert!(line.text.starts_with("the default reaches 2.00 GB/s at 8 MiB, and ib:mlx5_0"));
        // It was fast once.
        assert_eq!(said(2.0, &ib(&[10.0, 2.5])).verdict, Verdict::Pass);
        assert_eq!(said(8.0, &ib(&[10.0, 10.0])).verdict, Verdict::Pass);
        // Without figures of the default nothing is said against it.
        assert_eq!(line_without(&ib(&[10.0, 10.0])).verdict, Verdict::Pass);
    }

    fn line_without(tried: &[Tried]) -> CheckLine {
        line(&[], tried)
    }

    #[test]
    fn a_slow_rail_is_named() {
        let rails = |slow: &[f64], fast: &[f64]| {
            vec![tried("ib:a", fast), tried("ib:b", slow), tried("ib:c", &[10.0])]
        };
        let line = said(10.0, &rails(&[5.0, 5.5], &[10.0, 10.0]));
        assert!(line.blocks(), "{line:?}");
        assert_eq!(
            line.text,
            "ib:b reaches 5.25 GB/s where ib:a, ib:c of the same rate reach 10.00 GB/s; 2 launches of each show it"
        );
        assert_eq!(said(10.0, &rails(&[5.0], &[10.0])).verdict, Verdict::CannotTell);
        assert_eq!(said(10.0, &rails(&[5.0, 9.0], &[10.0, 10.0])).verdict, Verdict::Pass);
        assert_eq!(said(10.0, &rails(&[9.0, 9.0], &[10.0, 10.0])).verdict, Verdict::Pass);
        // Another rate, another kind.
        let mut other = tried("ib:b", &[5.0, 5.0]);
        for launch in &mut other.launches {
            launch.outcome.as_mut().unwrap().limit = Some(6.25);
        }
        assert_eq!(said(10.0, &[tried("ib:a", &[10.0, 10.0]), other]).verdict, Verdict::Pass);
        let sockets = [tried("ib:a", &[10.0, 10.0]), tried("socket:b", &[5.0, 5.0])];
        assert_eq!(said(10.0, &sockets).verdict, Verdict::Pass);
    }

    #[test]
    fn what_did_not_run_is_said_and_blocks_nothing() {
        let mut ib = tried("ib:a", &[10.0]);
        ib.launches[0].outcome.as_mut().unwrap().unproven = Some("NET/Socket ran".to_owned());
        let line = said(2.0, std::slice::from_ref(&ib));
        assert_eq!(line.verdict, Verdict::CannotTell);
        assert!(line.text.ends_with("ib:a not proven: NET/Socket ran"), "{}", line.text);
        let text = "rank 1 was lost".to_owned();
        ib.launches[0].outcome = Err(Failure::Job { text, who: None });
        let line = said(2.0, &[ib.clone(), tried("socket:a", &[2.0])]);
        assert_eq!(line.verdict, Verdict::Pass);
        assert!(line.text.contains("ib:a failed: rank 1 was lost, socket:a 2.00"), "{}", line.text);
        // What was not measured is no pass.
        for outcomes in [vec![Err(Failure::Tool("its time was over".to_owned()))], Vec::new()] {
            let launch = |outcome| TransportLaunch { outcome, took_s: 1.0 };
            ib.launches = outcomes.into_iter().map(launch).collect();
            let line = said(2.0, &[ib.clone(), tried("socket:a", &[2.0])]);
            assert_eq!(line.verdict, Verdict::CannotTell);
            assert!(line.text.ends_with("; there was no time for ib:a"), "{}", line.text);
        }
        assert_eq!(said(2.0, std::slice::from_ref(&ib)).verdict, Verdict::CannotTell);
        let waived = Some("on b there is no eth1".to_owned());
        let transport = NamedTransport { name: "socket:eth1".to_owned(), kind: None, waived };
        let none = Tried { transport, launches: Vec::new() };
        assert_eq!(said(2.0, std::slice::from_ref(&none)).verdict, Verdict::Waived);
        assert_eq!(said(2.0, &[none, ib]).verdict, Verdict::CannotTell);
        assert_eq!(said(2.0, &[]).verdict, Verdict::Waived);
    }
}
