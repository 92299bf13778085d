//! A real Prometheus scrapes the daemon and answers questions about it.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]
#![allow(clippy::print_stderr, reason = "tests that are skipped say so")]

use crate::host::serve_support::{Serving, ask};
use crate::record_support::{Scratch, can_record_compact, wait_for};
use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

/// Killed in the end.
struct Prometheus {
    child: Child,
    host: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(scratch: &Scratch, target: &str) -> Option<Self> {
        let config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: transect\n    static_configs: [{{targets: ['{target}']}}]\n"
        );
        fs::write(scratch.path("prometheus.yml"), config).unwrap();
        // Free just now; nobody else asks for ports in that moment.
        let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let spawned = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"])
            .arg(format!("--web.listen-address={host}"))
            .current_dir(scratch.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            eprintln!("skipped: no prometheus here (Debian: prometheus)");
            return None;
        };
        let prometheus = Prometheus { child, host };
        wait_for("prometheus", || {
            std::net::TcpStream::connect(&prometheus.host).is_ok()
                && ask(&prometheus.host, "GET", "/-/ready", "", "").status == 200
        });
        Some(prometheus)
    }

    /// The result of a query at a time, Unix seconds.
    fn query_at(&self, time: f64, query: &str) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={escaped}&time={time:.3}");
        let answer = ask(&self.host, "GET", &path, "", "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

/// Unix seconds.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn number(row: &Value) -> f64 {
    row["value"][1].as_str().unwrap().parse().unwrap()
}

#[test]
fn prometheus_scrapes_and_answers_and_promtool_finds_nothing() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch.path(""), "");
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Ok(mut tool) = tool.stderr(Stdio::piped()).spawn() {
        let page = serving.get("/metrics").body;
        tool.stdin.take().unwrap().write_all(&page).unwrap();
        let out = tool.wait_with_output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        assert!(out.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
    let Some(prometheus) = Prometheus::start(&scratch, &serving.host) else { return };
    // As of a scrape that came in time: one that does not, of a machine that stands still, hides the series.
    let mut scraped = None;
    wait_for("four scrapes", || {
        let last = prometheus.query_at(now(), "timestamp(up{job=\"transect\"} == 1)");
        scraped = last.first().map(number);
        scraped.is_some_and(|time| {
            let scrapes = "count_over_time(transect_windows_total[1m])";
            prometheus.query_at(time, scrapes).first().is_some_and(|row| number(row) >= 4.0)
        })
    });
    let query = |query: &str| prometheus.query_at(scraped.unwrap(), query);
    // A CPU's states are its time: all of every window's second.
    let cpus =
        query("sum by (cpu) (transect_cpu_time_seconds_total) / scalar(transect_windows_total)");
    let count = std::thread::available_parallelism().unwrap().get();
    assert!(cpus.len() >= count, "{cpus:?}");
    for row in &cpus {
        assert!((number(row) - 1.0).abs() < 1e-6, "{row}");
    }
    // Histograms are taken for what they are.
    let median = "histogram_quantile(0.5, sum by (le) (transect_cgroup_wait_seconds_bucket))";
    let median = number(&query(median)[0]);
    assert!(median > 0.0 && median < 17.0, "{median}");
    let missing = query("transect_missing_metric_info{metric=\"net_durations\"}");
    assert!(missing[0]["metric"]["reason"].as_str().unwrap().len() > 10, "{missing:?}");
    // It asked for OpenMetrics, and knows the kinds.
    let metadata = ask(
        &prometheus.host,
        "GET",
        "/api/v1/metadata?metric=transect_cgroup_wait_seconds",
        "",
        "",
    );
    let of = &metadata.json()["data"]["transect_cgroup_wait_seconds"][0];
    assert_eq!(
        (&of["type"], &of["unit"]),
        (&"histogram".into(), &"seconds".into()),
        "{}",
        metadata.text()
    );
}
