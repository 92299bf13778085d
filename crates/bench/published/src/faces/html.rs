//! A section of the report's page.

use super::{
    super::model::{Agreement, Row},
    found, is_measured, of_what, percents, said,
    table::summary,
};
use transect_model::escape;

/// The comparison as a `<section>`: counts, then a table of what was measured for each paper, with what was not folded away.
/// It brings no style of its own; its classes are `published`, and on lines `holds`, `does-not-hold`, `unresolved`,
/// `not-measured`, `cannot-speak`, `left-out`.
#[must_use]
pub fn html_section(rows: &[Row]) -> String {
    let mut html = String::from(
        "<section class=\"published\" id=\"published\">\n<h2>Beside the published numbers</h2>\n<p>Ratios are costs: above 1 is \
         slower. Percentages are 100·(2 − value/base) for times (100·value/base for rates), as in LTTng-Xen's paper, and the \
         remaining speed.</p>\n",
    );
    html.push_str(&counts(rows));
    for paper in summary(rows) {
        let own: Vec<&Row> = rows.iter().filter(|row| row.paper == paper.paper).collect();
        html.push_str(&section_of(&paper.paper, &own));
    }
    html + "</section>\n"
}

fn counts(rows: &[Row]) -> String {
    let mut html = String::from(
        "<table><thead><tr><th>paper</th><th>rows</th><th>hold</th><th>do not hold</th><th>unresolved</th>\
         <th>not measured</th><th>not comparable</th><th>left out</th></tr></thead><tbody>\n",
    );
    for counts in summary(rows) {
        let numbers = [
            counts.rows,
            counts.holds,
            counts.does_not_hold,
            counts.unresolved,
            counts.not_measured,
            counts.cannot_speak,
            counts.left_out,
        ];
        html.push_str(&format!("<tr><th>{}</th>", escape::html(&counts.paper)));
        html.extend(numbers.map(|number| format!("<td>{number}</td>")));
        html.push_str("</tr>\n");
    }
    html + "</tbody></table>\n"
}

fn section_of(paper: &str, rows: &[&Row]) -> String {
    let (measured, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_measured(row));
    let mut html = format!("<h3>{}</h3>\n", escape::html(paper));
    if !measured.is_empty() {
        html.push_str(
            "<table><thead><tr><th>where</th><th>row</th><th>theirs</th><th></th><th>ours</th><th></th><th>of</th><th>verdict</th>\
             </tr></thead><tbody>\n",
        );
        html.extend(measured.iter().map(|row| measured_line(row)));
        html.push_str("</tbody></table>\n");
    }
    if !others.is_empty() {
        html.push_str(&format!(
            "<details><summary>{} rows without a judgement</summary>\n<table><thead><tr><th>where</th><th>row</th>\
             <th>theirs</th><th>why</th></tr></thead><tbody>\n",
            others.len()
        ));
        html.extend(others.iter().map(|row| other_line(row)));
        html.push_str("</tbody></table></details>\n");
    }
    html
}

fn measured_line(row: &Row) -> String {
    let ours = row.ours.as_ref();
    let fields = [
        row.table.clone(),
        row.label.clone(),
        said(&row.theirs),
        percents(row.theirs.percent, row.theirs.speed),
        found(row),
        percents(ours.and_then(|ours| ours.percent), ours.and_then(|ours| ours.speed)),
        of_what(row),
        told(row),
    ];
    line(row, &fields)
}

fn other_line(row: &Row) -> String {
    line(row, &[row.table.clone(), row.label.clone(), said(&row.theirs), told(row)])
}

fn told(row: &Row) -> String {
    let parts = [row.agrees.word().to_owned(), row.agrees.why(), row.note.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" — ")
}

fn line(row: &Row, fields: &[String]) -> String {
    let class = match row.agrees {
        Agreement::Holds => "holds",
        Agreement::DoesNotHold => "does-not-hold",
        Agreement::Unresolved { .. } => "unresolved",
        Agreement::NotMeasured { .. } => "not-measured",
        Agreement::CannotSpeak { .. } => "cannot-speak",
        Agreement::LeftOut { .. } => "left-out",
    };
    let fields: String =
        fields.iter().map(|field| format!("<td>{}</td>", escape::html(field))).collect();
    format!("<tr class=\"{class}\">{fields}</tr>\n")
}
