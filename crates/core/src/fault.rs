//! Faults that a run injects into itself, so that its failure handling can be tested.
//! Not error handling: only which rank fails, how and when.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The phase of a row in which the fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before the first row, after the ranks have joined.
    Start,
    /// While warming up.
    Warmup,
    /// While iterations are timed.
    Timed,
    /// While results are checked.
    Verify,
    /// After the last row.
    End,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 5] =
        [Phase::Start, Phase::Warmup, Phase::Timed, Phase::Verify, Phase::End];

    /// Its name on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Warmup => "warmup",
            Phase::Timed => "timed",
            Phase::Verify => "verify",
            Phase::End => "end",
        }
    }
}

/// What the fault does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The rank's process dies of SIGKILL.
    Kill,
    /// The rank's process stops as of SIGSTOP.
    Stop,
    /// One bit of this element of the rank's receive buffer flips.
    Corrupt(u64),
    /// The rank's operations take this many times as long.
    Slow(f64),
    /// Each of the rank's operations takes this many microseconds longer.
    Late(f64),
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The rank that fails.
    pub rank: usize,
    /// The phase.
    pub phase: Phase,
    /// The row of the sweep, counted from 0.
    pub row: u64,
    /// What happens.
    pub action: Action,
    /// Slows only messages with this rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<usize>,
}

/// Why a fault specification was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "--fault '{text}': {why}; write rank=R,phase=start|warmup|timed|verify|end,row=N,do=kill|stop|corrupt:I|slow:F|slow:Nus[,peer=P]"
)]
pub struct FaultError {
    text: String,
    why: String,
}

impl Fault {
    /// Whether the fault strikes this rank in this phase of this row.
    pub fn strikes(&self, rank: usize, phase: Phase, row: u64) -> bool {
        self.rank == rank && self.phase == phase && self.row == row
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let refuse = |why: String| FaultError { text: text.to_owned(), why };
        let (mut rank, mut phase, mut row) = (0, Phase::Timed, 0);
        let (mut action, mut peer) = (None, None);
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| refuse(format!("'{part}' has no '='")))?;
            let number = || value.parse().map_err(|_| refuse(format!("'{value}' is no number")));
            match key {
                "rank" => rank = number()? as usize,
                "row" => row = number()?,
                "phase" => {
                    phase = Phase::ALL
                        .into_iter()
                        .find(|p| p.name() == value)
                        .ok_or_else(|| refuse(format!("'{value}' is no phase")))?;
                }
                "peer" => peer = Some(number()? as usize),
                "do" => action = Some(parse_action(value).map_err(refuse)?),
                _ => {
                    return Err(refuse(format!(
                        "'{key}' is not one of rank, phase, row, do, peer"
                    )));
                }
            }
        }
        let action = action.ok_or_else(|| refuse("it does not say what to do".to_owned()))?;
        if peer.is_some() && !matches!(action, Action::Slow(_) | Action::Late(_)) {
            return Err(refuse("peer= is for do=slow only".to_owned()));
        }
        Ok(Fault { rank, phase, row, action, peer })
    }
}

fn parse_action(text: &str) -> Result<Action, String> {
    match text.split_once(':') {
        None if text == "kill" => Ok(Action::Kill),
        None if text == "stop" => Ok(Action::Stop),
        Some(("corrupt", element)) => {
            element.parse().map(Action::Corrupt).map_err(|_| format!("'{element}' is no element"))
        }
        Some(("slow", late)) if late.ends_with("us") => match late.trim_end_matches("us").parse() {
            Ok(us) if (0.0..=1e6).contains(&us) => Ok(Action::Late(us)),
            _ => Err(format!("'{late}' is not 0us to 1e6us")),
        },
        Some(("slow", factor)) => match factor.parse() {
            Ok(f) if (1.0..=1e6).contains(&f) => Ok(Action::Slow(f)),
            _ => Err(format!("'{factor}' is no factor of 1 to 1e6")),
        },
        _ => Err(format!("'{text}' is no action")),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank={},phase={},row={},do=", self.rank, self.phase.name(), self.row)?;
        match self.action {
            Action::Kill => f.write_str("kill"),
            Action::Stop => f.write_str("stop"),
            Action::Corrupt(element) => write!(f, "corrupt:{element}"),
            Action::Slow(factor) => write!(f, "slow:{factor}"),
            Action::Late(us) => write!(f, "slow:{us}us"),
        }?;
        self.peer.map_or(Ok(()), |peer| write!(f, ",peer={peer}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_the_same() {
        for text in [
            "rank=3,phase=timed,row=2,do=kill",
            "rank=0,phase=end,row=0,do=stop",
            "rank=1,phase=verify,row=7,do=corrupt:12",
            "rank=1,phase=warmup,row=0,do=slow:1.5",
            "rank=1,phase=timed,row=0,do=slow:5us,peer=3",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_nonsense() {
        for text in [
            "",
            "rank=1",
            "rank=x,do=kill",
            "do=die",
            "do=slow:0",
            "do=slow:xus",
            "do=kill,peer=1",
            "a=b",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
