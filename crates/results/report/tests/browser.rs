//! The page and the figures in a real browser, light and dark: nothing scrolls sideways, no text is
//! cut off, every drawing has a name, what is drawn stands out from its paper (WCAG 2.1, 1.4.11: 3,
//! text 4.5), and all that can be clicked can be reached by keyboard.
//!
//! Chromium is asked to load one page that loads each of ours into a frame of a given width,
//! measures it, and writes what it found into its own document, which `--dump-dom` prints. That
//! needs no WebDriver and one start of the browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cavalcade_report::{FigureKind, FigureWidth, PairSide, ReportInfo, figure, html, pair_figure};

#[path = "../src/sample.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod sample;

/// Loads every page at every width, and lists what is wrong with it.
const CHECKER: &str = r##"
const faults = [];
const luminance = (color) => {
  const parts = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
  const linear = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const standsOut = (page, fault) => {
  const view = page.defaultView;
  const file = page.querySelector("svg > rect[fill]");
  const paper = page.querySelector("main") ? view.getComputedStyle(page.documentElement).backgroundColor
    : file ? view.getComputedStyle(file).fill : "rgb(255, 255, 255)";
  const seen = new Set();
  const look = (element, color, least) => {
    if (color === "none" || element.getBoundingClientRect().width + element.getBoundingClientRect().height === 0) return;
    const said = `${element.tagName}.${element.getAttribute("class")} ${color}`;
    const found = contrast(color, paper);
    if (found < least && !seen.has(said)) fault(`contrast of ${said} to ${paper} is ${found.toFixed(2)}`);
    seen.add(said);
  };
  for (const mark of page.querySelectorAll(".curve, .whisker, .waiting, .alone, .hollow, .paper")) {
    look(mark, view.getComputedStyle(mark).stroke, 3);
  }
  for (const mark of page.querySelectorAll(".dot")) {
    const { stroke, fill } = view.getComputedStyle(mark);
    look(mark, stroke === "none" ? fill : stroke, 3);
  }
  for (const text of page.querySelectorAll("svg text")) look(text, view.getComputedStyle(text).fill, 4.5);
  for (const text of page.querySelectorAll("h1, h2, p, th, td, dt, dd, label, button, .told, .about")) {
    look(text, view.getComputedStyle(text).color, 4.5);
  }
};
const reachable = (page, fault) => {
  for (const box of page.querySelectorAll(".choice input")) {
    if (!box.closest("label").textContent.trim()) fault("a box without a label");
  }
  for (const heading of page.querySelectorAll("table.sortable thead tr:last-child th")) {
    if (!heading.querySelector("button")) fault(`a heading that cannot be reached: ${heading.textContent}`);
  }
  for (const region of page.querySelectorAll(".scroll")) {
    if (region.tabIndex !== 0 || !region.getAttribute("aria-label")) fault("a region that cannot be scrolled by keyboard");
  }
  for (const control of page.querySelectorAll("button, input, select, [tabindex]")) {
    if (control.tabIndex < 0) fault(`out of reach of the keyboard: ${control.outerHTML.slice(0, 60)}`);
  }
};
const upClose = (page, fault) => {
  const chosen = page.querySelector("#chosen");
  if (!chosen) return;
  const { policies, coflows } = JSON.parse(page.querySelector("#coflows").textContent);
  const rows = (id) => [...page.querySelectorAll(`#${id} tbody tr`)];
  const isShown = (place) => rows("chosen-waits").length === policies.length
    && rows("chosen-waits")[0].textContent.includes(coflows[place].runs[0][0])
    && rows("chosen-flows").length === coflows[place].flows.length
    && page.querySelector("#chosen-facts").textContent === coflows[place].facts;
  if (!isShown(0) || page.querySelector("#coflow").hidden) fault("the first coflow is not shown");
  chosen.value = "2";
  chosen.dispatchEvent(new Event("change"));
  if (!isShown(2)) fault("the coflow that was chosen is not shown");
  const placeOf = (bar) => coflows.findIndex(({ coflow }) => String(coflow) === bar.dataset.coflow);
  const bar = [...page.querySelectorAll("[data-coflow]")].find((bar) => placeOf(bar) >= 0 && placeOf(bar) !== 2);
  const place = placeOf(bar);
  bar.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  if (!isShown(place) || chosen.value !== String(place)) fault("the coflow whose bar was clicked is not shown");
  if (!chosen.labels.length) fault("the list of coflows has no label");
};
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
  upClose(page, fault);
  standsOut(page, fault);
  reachable(page, fault);
  for (const cell of page.querySelectorAll("th:not([scope])")) fault(`no scope: ${cell.textContent}`);
  for (const about of page.querySelectorAll(".about")) {
    const cell = about.closest("th");
    if (about.offsetWidth > 0 && about.scrollWidth > cell.clientWidth) fault(`cut off: ${about.textContent}`);
  }
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
  if (isDark !== matchMedia("(prefers-color-scheme: dark)").matches) faults.push("not the colours that were asked for");
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

/// Returns what the browser finds wrong with pages of a name, a text and a width.
fn faults(browser: &Path, folder: &str, pages: &[(String, String, u32)]) -> Vec<String> {
    let found =
        [false, true].map(|is_dark| faults_in(browser, &format!("{folder}-{is_dark}"), is_dark, pages));
    found.concat()
}

fn faults_in(browser: &Path, folder: &str, is_dark: bool, pages: &[(String, String, u32)]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("a folder for the page");
    // A closing tag inside the text must not end the script.
    let pages = serde_json::to_string(pages).expect("JSON").replace("</", "<\\/").replace("<!--", "<\\!--");
    let page = format!(
        "<!DOCTYPE html><body><script>const pages = {pages}, isDark = {is_dark};{CHECKER}</script></body>"
    );
    let file = folder.join("check.html");
    fs::write(&file, page).expect("the page is written");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", if is_dark { 0 } else { 1 }))
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
    let Some(browser) = chromium() else { return cavalcade_testing::skipped("Chromium (chromium)") };
    let mut pages = Vec::new();
    for (runs, coflows) in [(1, 3), (5, 60), (15, 526)] {
        let mut comparison = sample::comparison(runs, coflows);
        comparison.bound = Some(sample::bound(&comparison));
        comparison.details = Some(sample::details(&comparison));
        let page = html(&comparison, &info());
        for width in [1400, 1000, 400] {
            pages.push((format!("{runs} runs of {coflows} coflows"), page.clone(), width));
        }
    }
    assert_eq!(faults(&browser, "report", &pages), Vec::<String>::new());
}

#[test]
fn figures_and_charts_cut_nothing_off() {
    let Some(browser) = chromium() else { return cavalcade_testing::skipped("Chromium (chromium)") };
    let comparison = sample::comparison(15, 200);
    let mut pages = Vec::new();
    let side = |run: usize| {
        let run = &comparison.runs[run];
        PairSide { name: &run.label, policy: &run.policy, times: &run.cct }
    };
    for width in [FigureWidth::Column, FigureWidth::Page] {
        let pair = pair_figure(&side(5), &side(0), width).expect("a figure");
        pages.push((format!("ab {width:?}"), pair, 1100));
    }
    for kind in [FigureKind::Cdf, FigureKind::Gain, FigureKind::Timeline, FigureKind::Queueing] {
        for width in [FigureWidth::Column, FigureWidth::Page] {
            let drawn = figure(&comparison, kind, width, &[0, 1, 3, 5]).expect("a figure");
            pages.push((format!("{kind:?} {width:?}"), drawn, 1100));
        }
    }
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    for entry in fs::read_dir(experiments).expect("the experiments") {
        let path = entry.expect("an entry").path().join("chart.svg");
        if let Ok(chart) = fs::read_to_string(&path) {
            pages.push((path.display().to_string(), chart, 1100));
        }
    }
    assert!(pages.len() > 20, "charts of experiments");
    assert_eq!(faults(&browser, "figures", &pages), Vec::<String>::new());
}
