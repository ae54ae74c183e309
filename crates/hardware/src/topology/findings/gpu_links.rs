//! GPUs with fewer NVLinks or xGMI links than the others of their host.
//! Not which of the links is down: the driver's own tool names it.

use busbw_core::finding::{Finding, Severity};

use super::cost;
use crate::topology::{Device, GpuLinkKind, Matrix, System, Word, rates::gpu_link_line};

/// GPUs with fewer links than the others of this host.
pub(super) fn fewer_links(system: &System) -> Vec<Finding> {
    let count = |at: &usize| {
        let gpu = system.devices.get(*at)?.gpu.as_ref()?;
        Some((*at, gpu, gpu.links.iter().fold(0_u32, |sum, link| sum.saturating_add(link.count))))
    };
    let each: Vec<_> = system.gpus().iter().filter_map(count).collect();
    let most = each
        .iter()
        .map(|(_, gpu, links)| (*links).max(gpu.links_in_all.unwrap_or(0)))
        .max()
        .unwrap_or(0);
    let fewer = each.iter().filter(|(_, _, links)| *links < most);
    fewer
        .map(|(at, gpu, links)| {
            let line = gpu_link_line(gpu);
            // The one without any has the kind of the others.
            let mut all = each.iter().flat_map(|(_, gpu, _)| &gpu.links);
            let brand = Brand::of(all.any(|link| link.kind == GpuLinkKind::Xgmi));
            let cause = format!("{links} of {most} {} to other GPUs", brand.links);
            let finding = Finding::new("gpu-link", Severity::Slow, cause)
                .subject(system.gpu_name(*at))
                .evidence(match gpu.links_in_all {
                    Some(all) => format!("the driver shows {all} links, {links} of them up"),
                    None => format!("other GPUs of this host have {most}"),
                })
                .remedy(format!(
                    "reset all GPUs{}, then reboot; if it stays, the bridge, baseboard or GPU is broken",
                    brand.reset
                ))
                .confirm(brand.confirm);
            let lost = line.map(|line| cost(line * f64::from(most - links)));
            Finding { cost: lost, ..finding }
        })
        .collect()
}

/// A link whose two ends are one GPU: the file or the driver names a wrong target.
pub(super) fn to_itself(device: &Device, name: &str) -> Option<Finding> {
    let link = device.gpu.as_ref()?.links.iter().find(|link| link.target == device.address)?;
    let brand = Brand::of(link.kind == GpuLinkKind::Xgmi);
    let cause = format!("{} of its {} lead to itself", link.count, brand.links);
    Some(
        Finding::new("self-link", Severity::Error, cause)
            .subject(name)
            .evidence(format!("the target of the link is {}, its own address", link.target))
            .remedy("correct the file: another GPU has fewer links than it should have")
            .confirm(brand.confirm),
    )
}

/// Whose links join GPUs: what they are called, and what looks after them.
struct Brand {
    links: &'static str,
    reset: &'static str,
    confirm: &'static str,
}

impl Brand {
    fn of(xgmi: bool) -> Brand {
        match xgmi {
            true => Brand { links: "xGMI links", reset: "", confirm: "amd-smi topology" },
            false => Brand {
                links: "NVLinks",
                reset: " (sudo nvidia-smi --gpu-reset)",
                confirm: "nvidia-smi nvlink -s",
            },
        }
    }
}

/// The same from nvidia-smi's matrix alone.
pub(super) fn of_matrix(matrix: &Matrix) -> Vec<Finding> {
    let mut findings = Vec::new();
    let gpus: Vec<usize> = matrix.gpus().collect();
    let links = |gpu: &usize| {
        let words = gpus.iter().filter_map(|other| matrix.between(*gpu, *other));
        words.fold(0_u32, |sum, word| match word {
            Word::NvLink(links) | Word::Xgmi(links) => sum.saturating_add(links),
            _ => sum,
        })
    };
    let most = gpus.iter().map(links).max().unwrap_or(0);
    let mut words = gpus.iter().flat_map(|a| gpus.iter().filter_map(|b| matrix.between(*a, *b)));
    let brand = Brand::of(words.any(|word| matches!(word, Word::Xgmi(_))));
    for gpu in gpus.iter().filter(|gpu| links(gpu) < most) {
        let cause =
            format!("its row adds up to {} {}, another's to {most}", links(gpu), brand.links);
        findings.push(
            Finding::new("gpu-link", Severity::Slow, cause)
                .subject(matrix.endpoints.get(*gpu).map_or("?", |e| e.known_as()))
                .evidence("the NV# or XG# words of its row")
                .remedy("a bridge that is missing, or links that are down: compare with the machine's data sheet")
                .confirm(brand.confirm),
        );
    }
    findings
}
