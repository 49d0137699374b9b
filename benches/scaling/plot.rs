//! Milliseconds per step as bars.

use std::path::Path;

use plotters::prelude::*;

use crate::report::Report;

type Failure = Box<dyn std::error::Error>;

pub fn write(report: &Report, file: &Path) -> Result<(), Failure> {
    let panels = report.models.len().max(1) as u32;
    let root = SVGBackend::new(file, (960, 240 * panels)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, model) in root
        .split_evenly((panels as usize, 1))
        .iter()
        .zip(&report.models)
    {
        let bars: Vec<(String, f64)> = model
            .rows
            .iter()
            .map(|row| (format!("{} x{}", row.name, row.replicas), row.median()))
            .collect();
        let top = bars.iter().map(|(_, value)| *value).fold(1e-3, f64::max) * 1.15;
        let count = bars.len().max(1) as i32;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{:?}: ms per step", model.kind), ("sans-serif", 18))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(60)
            .build_cartesian_2d((0..count - 1).into_segmented(), 0.0..top)?;
        let label = |segment: &SegmentValue<i32>| match segment {
            SegmentValue::CenterOf(index) => bars
                .get(*index as usize)
                .map(|(name, _)| name.clone())
                .unwrap_or_default(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(bars.len())
            .x_label_formatter(&label)
            .draw()?;
        for (index, (name, value)) in bars.iter().enumerate() {
            let color = if name.starts_with("burn-dp") {
                RGBColor(31, 119, 180)
            } else {
                RGBColor(160, 160, 160)
            };
            let index = index as i32;
            let bar = [
                (SegmentValue::Exact(index), 0.0),
                (SegmentValue::Exact(index + 1), *value),
            ];
            let mut rectangle = Rectangle::new(bar, color.filled());
            rectangle.set_margin(0, 0, 12, 12);
            chart.plotting_area().draw(&rectangle)?;
        }
    }
    root.present()?;
    Ok(())
}
