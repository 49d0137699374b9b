//! Loss and accuracy over the epochs, as SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::problem::{Problem, write_whole};
use crate::report::{Epoch, Report};

type Failure = Box<dyn std::error::Error>;
type Curve = (&'static str, RGBColor, fn(&Epoch) -> f64);

const TRAIN: RGBColor = RGBColor(31, 119, 180);
const TEST: RGBColor = RGBColor(214, 39, 40);

pub fn write(report: &Report, file: &Path) -> Result<(), Problem> {
    write_whole(file, |partial| {
        draw(report, partial).map_err(|error| error.to_string())
    })
}

fn draw(report: &Report, file: &Path) -> Result<(), Failure> {
    let root = SVGBackend::new(file, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(480);
    let losses: [Curve; 2] = [
        ("train", TRAIN, |epoch| epoch.train_loss),
        ("test", TEST, |epoch| epoch.test_loss),
    ];
    let accuracies: [Curve; 2] = [
        ("train", TRAIN, |epoch| epoch.train_accuracy),
        ("test", TEST, |epoch| epoch.test_accuracy),
    ];
    chart(&left, "loss", &report.epochs, &losses, None)?;
    chart(&right, "accuracy", &report.epochs, &accuracies, Some(1.0))?;
    root.present()?;
    Ok(())
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    epochs: &[Epoch],
    curves: &[Curve],
    top: Option<f64>,
) -> Result<(), Failure> {
    let values: Vec<f64> = curves
        .iter()
        .flat_map(|(_, _, value)| epochs.iter().map(value))
        .filter(|value| value.is_finite())
        .collect();
    let highest = top.unwrap_or_else(|| values.iter().copied().fold(1e-3, f64::max) * 1.05);
    let lowest = match top {
        Some(top) => values.iter().copied().fold(top - 0.01, f64::min),
        None => 0.0,
    };
    let last = epochs.len().max(2) as u32;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(1..last, lowest..highest)?;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .x_labels(last.min(12) as usize)
        .draw()?;
    for (name, color, value) in curves {
        let color = *color;
        let points: Vec<(u32, f64)> = epochs
            .iter()
            .map(|epoch| (epoch.epoch, value(epoch)))
            .collect();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
