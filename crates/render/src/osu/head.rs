//! The lines above OSU's rows: the title, and for every type a line and the column names.
//! Not the rows.

use busbw_core::{
    DataType,
    messages::Messages,
    plan::{MovedBy, Plan},
};

use super::{bandwidth, is_sized, osu, program};

/// The lines before the first type's.
pub(super) fn title(plan: &Plan) -> String {
    let Some(program) = program(plan) else { return String::new() };
    let xccl = program.is_xccl();
    let pair = plan.benchmark.messages();
    let several = pair == Some(Messages::MultiBandwidth);
    let sides = osu(plan).on_gpus;
    let mut text = String::new();
    if xccl && plan.backend.spec().moved_by == MovedBy::Nccl {
        text += "#Using NCCL\n";
    }
    if !several {
        text.push('\n');
    }
    let gpus = sides.contains(&true).then(|| osu(plan).accelerator);
    text += &program.title_line(plan.backend.name(), gpus);
    text.push('\n');
    if xccl && pair.is_some() && sides.contains(&true) {
        let [first, second] = sides.map(|gpu| if gpu { "DEVICE (D)" } else { "HOST (H)" });
        text += &format!("# Send Buffer on {first} and Receive Buffer on {second}\n");
    }
    if let Some(test) = pair.filter(|_| several) {
        let pairs = plan.pairs(test).len();
        let window = match plan.messaging.varied.is_empty() {
            true => plan.messaging.window.to_string(),
            false => "varied".to_owned(),
        };
        text += &format!("# [ pairs: {pairs} ] [ window size: {window} ]\n");
        if !plan.messaging.varied.is_empty() {
            text += "\n# Uni-directional Bandwidth (MB/sec)\n";
        }
    }
    text
}

/// The lines above the rows of a type.
pub(super) fn columns(plan: &Plan, datatype: DataType) -> String {
    let mut text = String::new();
    let xccl = program(plan).is_some_and(busbw_core::osu::Program::is_xccl);
    if is_sized(plan) && !xccl {
        text += &format!("# Datatype: {}.\n", type_name(datatype));
    }
    if !plan.messaging.varied.is_empty() {
        return text + &windows(&plan.messaging.varied);
    }
    let pair = plan.benchmark.messages().is_some();
    let main = match bandwidth(plan) {
        None if xccl && pair => "Latency (us)",
        None => "Avg Latency(us)",
        Some(Messages::MultiBandwidth) => "MB/s",
        Some(_) => "Bandwidth (MB/s)",
    };
    text += &match is_sized(plan) {
        true => format!("{:<10}{main:>18}", "# Size"),
        false => format!("# {main}"),
    };
    if bandwidth(plan) == Some(Messages::MultiBandwidth) && osu(plan).rate {
        text += &format!("{:>18}", "Messages/s");
    }
    if osu(plan).full && plan.benchmark.collective().is_some() {
        text += &format!("{:>18}{:>18}{:>12}", "Min Latency(us)", "Max Latency(us)", "Iterations");
    }
    if plan.check > 0 {
        text += &format!("{:>18}", "Validation");
    }
    for percent in &plan.messaging.percentiles {
        // The plan has percentiles of times; bandwidths need their complements.
        let (unit, percent) = match bandwidth(plan) {
            Some(_) => ("BW(MB/s)", 100 - percent.min(&100)),
            None => ("Lat(us)", *percent),
        };
        // Three digits shift the column, as in OSU's output.
        let label = format!("Px Tail {unit}");
        let blanks = 18 - label.len() - usize::from(percent > 9);
        text += &format!("{:blanks$}P{percent} Tail {unit}", "");
    }
    text + "\n"
}

/// The windows above the cells of a grid.
pub(super) fn windows(windows: &[u32]) -> String {
    let cells: String = windows.iter().map(|window| format!("  {window:>10}")).collect();
    format!("#      {cells}\n")
}

/// MPI's name of a type.
fn type_name(datatype: DataType) -> &'static str {
    match datatype {
        DataType::Int32 => "MPI_INT",
        DataType::Float => "MPI_FLOAT",
        _ => "MPI_CHAR",
    }
}
