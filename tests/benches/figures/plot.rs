//! The plot in `docs/performance.md`: deliveries per second and CPU time per delivery, against events in flight.

use plotters::{
    coord::Shift,
    prelude::{
        BLACK, ChartBuilder, Circle, DrawingArea, IntoDrawingArea, IntoLogRange, LineSeries, RGBColor, SVGBackend,
        SeriesLabelPosition, WHITE,
    },
    style::Color,
};

use crate::delivery::Point;

const OWN: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const LEAST: RGBColor = RGBColor(0xb0, 0x60, 0x20);

/// Draws `docs/deliveries.svg`.
pub(crate) fn draw(points: &[Point]) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deliveries.svg");
    std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).expect("a folder");
    let root = SVGBackend::new(path, (960, 360)).into_drawing_area();
    root.fill(&WHITE).expect("the drawing succeeds");
    let halves = root.split_evenly((1, 2));
    panel(&halves[0], "deliveries per second, one process", points, |point| point.rate);
    panel(&halves[1], "CPU of a delivery, µs", points, |point| point.cpu);
    root.present().expect("the write succeeds");
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, points: &[Point], values: fn(&Point) -> (f64, f64)) {
    let most = points.iter().map(|point| values(point).0.max(values(point).1)).fold(0.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((10.0..1000.0).log_scale(), 0.0..most)
        .expect("the drawing succeeds");
    let mesh = chart
        .configure_mesh()
        .x_desc("events in flight")
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw();
    mesh.expect("the drawing succeeds");
    for (label, color, own) in [("this service", OWN, true), ("the minimum with the same AWS calls", LEAST, false)] {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let line =
            points.iter().map(|point| (point.in_flight as f64, if own { values(point).0 } else { values(point).1 }));
        let series =
            chart.draw_series(LineSeries::new(line.clone(), color.stroke_width(2))).expect("the drawing succeeds");
        series.label(label).legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
        chart.draw_series(line.map(|point| Circle::new(point, 4, color.filled()))).expect("the drawing succeeds");
    }
    let labels = chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw();
    labels.expect("the drawing succeeds");
}
