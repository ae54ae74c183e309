//! A collective against what the hardware allows.
//! Not the limit itself (`explain`), and not an earlier run (`baseline`).

use busbw_core::quantity::{bytes, percent, rate};

use super::{
    collective::{CollectiveFigures, LimitShare},
    report::{Check, CheckLine, Figure, TWICE, Verdict},
};

/// The line of the limit; none where nobody asked for a share of it and none is known. `least` is in percent.
pub(super) fn line(launches: &[&CollectiveFigures], least: Option<f64>) -> Option<CheckLine> {
    let mut shares: Vec<&LimitShare> =
        launches.iter().filter_map(|launch| launch.limit.as_ref()?.as_ref().ok()).collect();
    shares.sort_by(|a, b| a.percent.total_cmp(&b.percent));
    let Some(middle) = shares.get(shares.len() / 2) else {
        let why = launches.iter().find_map(|launch| launch.limit.as_ref()?.as_ref().err());
        let why = why.map_or("no launch gave a figure", String::as_str);
        let text = format!("no limit is known: {why}");
        let advice = "name the machine with --machine".to_owned();
        return least.is_some().then(|| {
            CheckLine::new(Check::Limit, Verdict::CannotTell, text).advice(Some(advice), None)
        });
    };
    let text = format!(
        "{} GB/s at {} is {} % of {} GB/s, which {} sets",
        rate(middle.busbw),
        bytes(middle.size),
        percent(middle.percent),
        rate(middle.limit),
        middle.set_by
    );
    let figure = Some(Figure {
        value: middle.busbw,
        unit: "GB/s".to_owned(),
        size: Some(middle.size),
        wanted: Some(middle.limit),
    });
    let Some(least) = least else {
        return Some(CheckLine::new(Check::Limit, Verdict::Pass, text).figure(figure));
    };
    let below = shares.iter().filter(|share| share.percent < least).count();
    let line = match below {
        0 => CheckLine::new(Check::Limit, Verdict::Pass, text),
        _ if middle.percent >= least => {
            let text = format!(
                "{text}; {below} of {} launches were below {} %",
                shares.len(),
                percent(least)
            );
            CheckLine {
                measured: below as u32,
                ..CheckLine::new(Check::Limit, Verdict::Pass, text)
            }
        }
        // Launches that do not agree are noise until shown otherwise.
        _ => {
            let agree = below == shares.len() && below as u32 >= TWICE;
            let text = format!(
                "{text}; {} % is wanted, and {below} of {} launches were below",
                percent(least),
                shares.len()
            );
            let line = CheckLine::fault(Check::Limit, if agree { below as u32 } else { 1 }, text);
            CheckLine { measured: below as u32, ..line }
        }
    };
    Some(line.figure(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(percents: &[f64], least: Option<f64>) -> Option<CheckLine> {
        let share = |percent: f64| LimitShare {
            size: 8 << 20,
            busbw: percent / 2.0,
            limit: 50.0,
            percent,
            set_by: "the NIC".to_owned(),
        };
        let figures = |percent: &f64| CollectiveFigures {
            limit: Some(Ok(share(*percent))),
            ..CollectiveFigures::default()
        };
        let all: Vec<CollectiveFigures> = percents.iter().map(figures).collect();
        line(&all.iter().collect::<Vec<_>>(), least)
    }

    #[test]
    fn all_launches_must_be_below() {
        let verdict = |percents: &[f64]| {
            let line = of(percents, Some(80.0)).unwrap();
            (line.verdict, line.blocks())
        };
        assert_eq!(verdict(&[91.0, 92.0, 90.0]), (Verdict::Pass, false));
        assert_eq!(verdict(&[71.0, 92.0, 90.0]), (Verdict::Pass, false));
        assert_eq!(verdict(&[71.0, 72.0, 90.0]), (Verdict::CannotTell, false));
        assert_eq!(verdict(&[71.0]), (Verdict::CannotTell, false));
        assert_eq!(verdict(&[71.0, 72.0]), (Verdict::Fail, true));
        let text = of(&[71.0, 72.0], Some(80.0)).unwrap().text;
        assert_eq!(
            text,
            "36.00 GB/s at 8 MiB is 72.0 % of 50.00 GB/s, which the NIC sets; 80.0 % is wanted, and 2 of 2 launches were below"
        );
    }

    #[test]
    fn without_a_limit_only_who_asked_is_told() {
        let none = CollectiveFigures {
            limit: Some(Err("the rate of eth0 is not known".to_owned())),
            ..CollectiveFigures::default()
        };
        assert_eq!(line(&[&none], None), None);
        assert_eq!(line(&[&none], Some(80.0)).unwrap().verdict, Verdict::CannotTell);
        assert_eq!(of(&[40.0], None).unwrap().verdict, Verdict::Pass);
    }
}
