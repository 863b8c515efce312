//! Plots of the results, as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::{
    Result,
    results::{Measure, Row, Side},
};

const OURS: RGBColor = RGBColor(31, 119, 180);
const THEIRS: RGBColor = RGBColor(160, 160, 160);
const FONT: &str = "sans-serif";

/// Into a folder; the names of the files.
pub fn draw(rows: &[Row], folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut families: Vec<&str> = rows.iter().map(|it| it.family).collect();
    families.dedup();
    for family in families {
        let bars: Vec<_> = rows
            .iter()
            .filter(|it| it.family == family)
            .filter_map(|it| match &it.measure {
                Measure::Latency(latency) => Some((it, latency.p50_ms)),
                _ => None,
            })
            .collect();
        if !bars.is_empty() {
            let name = format!("{}.svg", family.replace(' ', "-"));
            medians(family, &bars, &folder.join(&name))?;
            names.push(name);
        }
    }
    if let Some(most) = clients(rows).map(|it| it.1).reduce(f64::max) {
        throughput(rows, most, &folder.join("throughput.svg"))?;
        names.push("throughput.svg".into());
    }
    Ok(names)
}

/// A bar for each median, the shortest first, on a scale of powers of ten.
fn medians(title: &str, bars: &[(&Row, f64)], file: &Path) -> Result<()> {
    const LINE: i32 = 26;
    const TOP: i32 = 44;
    const LEFT: i32 = 400;
    const WIDTH: i32 = 400;
    let mut bars = bars.to_vec();
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    let size = (980, u32::try_from(TOP + LINE * bars.len() as i32 + 14)?);
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE)?;
    let text = (FONT, 14).into_font();
    let heading = (FONT, 18).into_font().color(&BLACK);
    root.draw_text(
        &format!("Medians: {title} (logarithmic)"),
        &heading,
        (14, 12),
    )?;
    let (least, most) = (bars[0].1, bars[bars.len() - 1].1);
    // The shortest is a bar too.
    let (low, high) = ((least / 2.0).ln(), most.ln());
    for (line, (row, median)) in (0..).zip(&bars) {
        let y = TOP + LINE * line;
        let colour = match row.side {
            Side::Service => OURS,
            Side::Yardstick => THEIRS,
        };
        let length = (median.ln() - low) / (high - low) * f64::from(WIDTH);
        let end = LEFT + length as i32;
        let bar = [(LEFT, y), (end, y + LINE - 8)];
        root.draw(&Rectangle::new(bar, colour.filled()))?;
        let label = row.name.replace('`', "");
        root.draw(&Text::new(label, (14, y + 2), text.clone()))?;
        root.draw(&Text::new(
            format!("{median:.2} ms"),
            (end + 8, y + 2),
            text.clone(),
        ))?;
    }
    root.present()?;
    Ok(())
}

/// Closed loops of the service: their clients, their calls per second, and of what.
fn clients(rows: &[Row]) -> impl Iterator<Item = (usize, f64, &str)> {
    rows.iter().filter_map(|row| match &row.measure {
        Measure::Load(it) if row.side == Side::Service && it.offered_per_second.is_none() => {
            let what = row.name.split(", closed").next()?;
            Some((it.clients, it.per_second, what))
        }
        _ => None,
    })
}

fn throughput(rows: &[Row], most: f64, file: &Path) -> Result<()> {
    let root = SVGBackend::new(file, (980, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Calls per second, closed loop", (FONT, 18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((1f64..128f64).log_scale(), 0f64..most * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("clients")
        .x_label_formatter(&|it| format!("{it:.0}"))
        .draw()?;
    let mut whats: Vec<&str> = clients(rows).map(|it| it.2).collect();
    whats.dedup();
    for (n, what) in whats.into_iter().enumerate() {
        let colour = Palette99::pick(n).to_rgba();
        let points: Vec<(f64, f64)> = clients(rows)
            .filter(|it| it.2 == what)
            .map(|it| (it.0 as f64, it.1))
            .collect();
        let dots = points.iter().map(|it| Circle::new(*it, 4, colour.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(what.replace('`', ""))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {

    use std::{fs, time::Duration};

    use super::*;
    use crate::{load::Load, samples::Samples};

    #[test]
    fn there_is_a_plot_of_medians_and_one_of_clients() {
        let mut samples = Samples::default();
        samples.push(Duration::from_millis(2));
        let latency = samples.summary().unwrap();
        let row = |name: &str, measure| Row {
            family: "some calls",
            name: name.to_owned(),
            side: Side::Service,
            measure,
        };
        let load = |clients| {
            Measure::Load(Load {
                clients,
                offered_per_second: None,
                per_second: clients as f64 * 10.0,
                latency,
                failed: 0,
                failure: None,
                cost: None,
            })
        };
        let rows = [
            row("`/bash`", Measure::Latency(latency)),
            row("`/execute`, closed loop, 1 client", load(1)),
            row("`/execute`, closed loop, 8 clients", load(8)),
        ];
        let folder = tempfile::tempdir().unwrap();
        let names = draw(&rows, folder.path()).unwrap();
        assert_eq!(names, ["some-calls.svg", "throughput.svg"]);
        let read = |name: &String| fs::read_to_string(folder.path().join(name)).unwrap();
        let [medians, throughput] = [0, 1].map(|n| read(&names[n]));
        assert!(medians.contains("/bash") && medians.contains("2.00 ms"));
        assert!(throughput.contains("<polyline") && throughput.contains("/execute"));
    }
}
