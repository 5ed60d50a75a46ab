//! The page and the figures in a real browser: nothing scrolls sideways, no text is cut off, every drawing has a name.
//!
//! Chromium is asked to load one page that loads each of ours into a frame of a given width, measures it, and writes what it
//! found into its own document, which `--dump-dom` prints. That needs no WebDriver and one start of the browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cavalcade_report::{FigureKind, FigureWidth, ReportInfo, figure, html};

#[path = "../src/sample.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod sample;

/// Loads every page at every width, and lists what is wrong with it.
const CHECKER: &str = r##"
const faults = [];
const check = (frame, name, width) => {
  const page = frame.contentDocument;
  const fault = (text) => faults.push(`${name} at ${width} px: ${text}`);
  const root = page.documentElement;
  if (root.scrollWidth > frame.contentWindow.innerWidth) {
    fault(`scrolls sideways, ${root.scrollWidth} px wide`);
  }
  for (const svg of page.querySelectorAll("svg:not([aria-hidden])")) {
    if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label")) fault("a drawing without a name");
    const box = svg.getBoundingClientRect();
    if (box.width === 0) continue;
    for (const text of svg.querySelectorAll("text")) {
      const own = text.getBoundingClientRect();
      if (own.width === 0) continue;
      const out = Math.max(box.left - own.left, own.right - box.right, box.top - own.top, own.bottom - box.bottom);
      if (out > 1) fault(`"${text.textContent}" is cut off by ${out.toFixed(1)} px in ${svg.getAttribute("aria-label")}`);
      const size = parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width;
      if (size < 9) fault(`"${text.textContent}" is ${size.toFixed(1)} px tall`);
    }
  }
  for (const cell of page.querySelectorAll("th:not([scope])")) fault(`no scope: ${cell.textContent}`);
  for (const item of page.querySelectorAll(".choice label")) {
    if (item.getBoundingClientRect().right > width) fault(`legend entry out of sight: ${item.textContent}`);
  }
  if (page.querySelector("#show0") && width === 400) {
    const all = page.querySelector("[data-show=all]");
    all.click();
    if (root.scrollWidth > frame.contentWindow.innerWidth) fault("scrolls sideways with all policies");
    page.querySelector("#cards").click();
    if (root.scrollWidth > frame.contentWindow.innerWidth) fault("scrolls sideways with all columns");
  }
};
(async () => {
  for (const [name, text, width] of pages) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `border:0;height:900px;width:${width}px`;
    const loaded = new Promise((done) => { frame.onload = done; });
    frame.srcdoc = text;
    document.body.append(frame);
    await loaded;
    check(frame, name, width);
    frame.remove();
  }
  document.body.textContent = `FAULTS${JSON.stringify(faults)}END`;
})();
"##;

fn chromium() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// What the browser finds wrong with pages of a name, a text and a width.
fn faults(browser: &Path, folder: &str, pages: &[(String, String, u32)]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("a folder for the page");
    // A closing tag inside the text must not end the script.
    let pages = serde_json::to_string(pages).expect("JSON").replace("</", "<\\/").replace("<!--", "<\\!--");
    let page = format!("<!DOCTYPE html><body><script>const pages = {pages};{CHECKER}</script></body>");
    let file = folder.join("check.html");
    fs::write(&file, page).expect("the page is written");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(&file)
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let found = dom.split_once("FAULTS").and_then(|(_, rest)| rest.split_once("END"));
    let (found, _) =
        found.unwrap_or_else(|| panic!("no verdict: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        .expect("JSON")
}

fn info() -> ReportInfo {
    ReportInfo {
        command: "cavalcade compare a-trace-with-a-rather-long-name.txt --policies sebf,fair --report r.html"
            .into(),
        version: "0.1.0".into(),
        trace: "a-trace-with-a-rather-long-name-that-has-no-place-to-break.txt".into(),
        seed: Some(7),
    }
}

#[test]
fn the_page_fits_a_desk_and_a_phone() {
    let Some(browser) = chromium() else { return cavalcade_skip::skipped("Chromium (chromium)") };
    let mut pages = Vec::new();
    for (runs, coflows) in [(1, 3), (5, 60), (15, 526)] {
        let mut comparison = sample::comparison(runs, coflows);
        comparison.bound = Some(sample::bound(&comparison));
        let page = html(&comparison, &info());
        for width in [1400, 1000, 400] {
            pages.push((format!("{runs} runs of {coflows} coflows"), page.clone(), width));
        }
    }
    assert_eq!(faults(&browser, "report", &pages), Vec::<String>::new());
}

#[test]
fn figures_and_charts_cut_nothing_off() {
    let Some(browser) = chromium() else { return cavalcade_skip::skipped("Chromium (chromium)") };
    let comparison = sample::comparison(15, 200);
    let mut pages = Vec::new();
    for kind in [FigureKind::Cdf, FigureKind::Gain, FigureKind::Timeline] {
        for width in [FigureWidth::Column, FigureWidth::Page] {
            let drawn = figure(&comparison, kind, width, &[0, 1, 3, 5]).expect("a figure");
            pages.push((format!("{kind:?} {width:?}"), drawn, 1100));
        }
    }
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for entry in fs::read_dir(experiments).expect("the experiments") {
        let path = entry.expect("an entry").path().join("chart.svg");
        if let Ok(chart) = fs::read_to_string(&path) {
            pages.push((path.display().to_string(), chart, 1100));
        }
    }
    assert!(pages.len() > 20, "charts of experiments");
    assert_eq!(faults(&browser, "figures", &pages), Vec::<String>::new());
}
