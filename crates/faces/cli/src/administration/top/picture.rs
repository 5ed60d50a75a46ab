//! The screen of `cavalcade top`: the last look, a list with one coflow selected, and why that goes
//! as it does.

use cavalcade_runtime::administration::AdministrationError;
use cavalcade_runtime::administration::proto::{Coflow, SwitchPort, View};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::looks::{Looks, bits};
use super::selection::Selection;
use crate::administration::{amount, heading, switch};

/// A key's request that the screen cannot meet by itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end.
    End,
    /// The reasons for a coflow, by its key.
    Why(String),
}

/// A text over the list.
struct Explanation {
    title: String,
    text: String,
    scrolled: u16,
}

/// The last look, and what keys have made of it.
#[derive(Default)]
pub(super) struct Picture {
    looks: Looks,
    selection: Selection,
    problem: Option<String>,
    is_typing: bool,
    explanation: Option<Explanation>,
}

impl Picture {
    /// Takes in an answer.
    pub(super) fn take(&mut self, looked: Result<View, AdministrationError>) {
        match looked {
            Ok(view) => {
                self.looks.take(view);
                self.problem = None;
                self.arrange();
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// Shows why the selected coflow goes as it does, until it is closed.
    pub(super) fn explain(&mut self, text: String) {
        let id = self.selected().map_or("", |coflow| &coflow.id);
        let title = format!(" cavalcade why {id} ");
        self.explanation = Some(Explanation { title, text, scrolled: 0 });
    }

    /// Does what a key asks for, or returns it as a wish.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Wish::End);
        }
        if self.explanation.is_some() {
            self.read(key.code);
        } else if self.is_typing {
            self.type_in(key.code);
            self.arrange();
        } else {
            return self.choose(key.code);
        }
        None
    }

    /// Scrolls the explanation, or closes it.
    fn read(&mut self, key: KeyCode) {
        let Some(explanation) = &mut self.explanation else { return };
        let last = u16::try_from(explanation.text.lines().count()).unwrap_or(u16::MAX).saturating_sub(1);
        match key {
            KeyCode::Up | KeyCode::Char('k') => explanation.scrolled = explanation.scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => explanation.scrolled = (explanation.scrolled + 1).min(last),
            _ => self.explanation = None,
        }
    }

    fn type_in(&mut self, key: KeyCode) {
        let filter = &mut self.selection.filter;
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                filter.clear();
            }
            KeyCode::Backspace => _ = filter.pop(),
            KeyCode::Char(letter) => filter.push(letter),
            _ => {}
        }
    }

    fn choose(&mut self, key: KeyCode) -> Option<Wish> {
        let page = self.selection.page();
        match key {
            KeyCode::Esc if !self.selection.filter.is_empty() => self.selection.filter.clear(),
            KeyCode::Char('q') | KeyCode::Esc => return Some(Wish::End),
            KeyCode::Char('w') | KeyCode::Enter => {
                return self.selected().map(|coflow| Wish::Why(coflow.coflow.clone()));
            }
            KeyCode::Char('s') => self.selection.next_order(),
            KeyCode::Char('r') => self.selection.is_reversed = !self.selection.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            _ => {}
        }
        self.arrange();
        None
    }

    fn step(&mut self, rows: isize) {
        self.selection.step(rows, self.looks.coflows());
    }

    fn arrange(&mut self) {
        self.selection.arrange(self.looks.coflows(), self.looks.rates());
    }

    fn selected(&self) -> Option<&Coflow> {
        self.selection.current().map(|place| &self.looks.coflows()[place])
    }

    /// Draws it.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts =
            [2, 2].map(Constraint::Length).into_iter().chain([Constraint::Min(0), Constraint::Length(1)]);
        let [head, sums, body, foot] = Layout::vertical(parts).areas(frame.area());
        match self.looks.view() {
            Some(view) => {
                let wrap = Wrap { trim: true };
                frame.render_widget(Paragraph::new(heading(view)).bold().wrap(wrap), head);
                frame.render_widget(Paragraph::new(self.looks.sums(view)).wrap(wrap), sums);
                match &view.switch {
                    Some(switch) => {
                        frame.render_widget(ports(&switch.ports, self.looks.rates(), body.width), body)
                    }
                    None => self.draw_coflows(frame, body),
                }
            }
            None => frame.render_widget(Line::from("asking …"), head),
        }
        frame.render_widget(self.foot(), foot);
        if let Some(Explanation { title, text, scrolled }) = &self.explanation {
            let text = Paragraph::new(text.as_str()).wrap(Wrap { trim: false }).scroll((*scrolled, 0));
            frame.render_widget(Clear, body);
            frame.render_widget(text.block(Block::bordered().title(title.as_str())), body);
        }
    }

    fn draw_coflows(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (coflows, rates) = (self.looks.coflows(), self.looks.rates());
        // Only rows on the screen are formatted: there may be 100,000.
        let shown = self.selection.scroll(area.height.saturating_sub(1).into());
        let rows: Vec<Row<'_>> = shown.iter().map(|&place| row(&coflows[place], rates[place])).collect();
        let table = Table::new(rows, WIDTHS).header(Row::new(HEADER).bold());
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::default().with_selected(Some(self.selection.row_on_screen()));
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn foot(&self) -> Line<'static> {
        let Selection { filter, order, is_reversed, .. } = &self.selection;
        if self.explanation.is_some() {
            return Line::from("↑↓ scroll  any other key closes this").dim();
        }
        if self.is_typing {
            return Line::from(format!(
                "/{filter}▏ part of a name, or an id's first digits; Enter keeps it, Esc not"
            ));
        }
        if let Some(problem) = &self.problem {
            return Line::from(vec![Span::from("q ends   ").dim(), Span::from(problem.clone()).red()]);
        }
        let reversed = if *is_reversed { ", reversed" } else { "" };
        let filter = if filter.is_empty() { String::new() } else { format!(": {filter}") };
        let order = order.name();
        Line::from(format!(
            "↑↓ select  w why  s sort ({order}{reversed})  r reverse  q end  / filter{filter}"
        ))
        .dim()
    }
}

/// Widths of the columns of ports, with the rate as the first.
const PORT_WIDTHS: [u16; 12] = [10, 8, 7, 8, 5, 9, 8, 8, 4, 8, 8, 4];
/// Columns of ports that are left out where the screen is too narrow; all others take 80
/// characters.
const WIDE_ONLY: [&str; 2] = ["link", "questions"];

fn ports(ports: &[SwitchPort], rates: &[Option<f64>], width: u16) -> Table<'static> {
    let header: Vec<&str> = std::iter::once("rate").chain(switch::COLUMNS).collect();
    let is_wide = width >= PORT_WIDTHS.iter().map(|column| column + 1).sum();
    let has_room: Vec<usize> =
        (0..header.len()).filter(|&column| is_wide || !WIDE_ONLY.contains(&header[column])).collect();
    let row = |(port, rate): (&SwitchPort, &Option<f64>)| {
        let rate = rate.map_or_else(|| "-".to_owned(), bits);
        let cells: Vec<String> = std::iter::once(rate).chain(switch::cells(port)).collect();
        Row::new(has_room.iter().map(|&column| cells[column].clone()).collect::<Vec<_>>())
    };
    let rows: Vec<Row<'static>> = ports.iter().zip(rates).map(row).collect();
    let widths = has_room.iter().map(|&column| Constraint::Length(PORT_WIDTHS[column]));
    let header = Row::new(has_room.iter().map(|&column| header[column]).collect::<Vec<_>>());
    Table::new(rows, widths).header(header.bold())
}

const HEADER: [&str; 10] = ["id", "name", "class", "rate", "sent", "size", "send", "off", "idle", "age"];

/// Widths of the columns: all but the name take 68 of 80 characters, with the blanks between them.
const WIDTHS: [Constraint; 10] = [
    Constraint::Length(8),
    Constraint::Min(12),
    Constraint::Length(5),
    Constraint::Length(10),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Length(4),
    Constraint::Length(4),
    Constraint::Length(4),
    Constraint::Length(8),
];

fn row(coflow: &Coflow, rate: Option<f64>) -> Row<'static> {
    let dash = || "-".to_owned();
    let sending = coflow.open + coflow.paced;
    let age = |age: u64| match age as f64 / 1e9 {
        seconds if seconds < 1e4 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} h", seconds / 3_600.0),
    };
    let cells = [
        coflow.id.clone(),
        coflow.name.clone().unwrap_or_else(dash),
        coflow.class.to_string(),
        rate.map_or_else(dash, bits),
        amount(coflow.sent_bytes),
        coflow.size_bytes.map_or_else(dash, amount),
        sending.to_string(),
        coflow.off.to_string(),
        coflow.resting.to_string(),
        coflow.age_ns.map_or_else(dash, age),
    ];
    // What waits is dim, what sends is not.
    let style = if sending > 0 { Style::new() } else { Style::new().add_modifier(Modifier::DIM) };
    Row::new(cells).style(style)
}

#[cfg(test)]
mod tests {
    use cavalcade_runtime::administration::proto::{Switch, SwitchClass};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn coflow(number: u64, sent_bytes: u64) -> Coflow {
        Coflow {
            coflow: format!("{number}.0.{number}"),
            id: format!("{number:07x}"),
            name: Some(format!("sort-{number}")),
            sent_bytes,
            size_bytes: Some(999_900_000_000),
            age_ns: Some(9_999_900_000_000),
            open: 2,
            off: 1,
            ..Coflow::default()
        }
    }

    fn view(now_ns: u64, coflows: Vec<Coflow>) -> View {
        View {
            role: "coordinator".to_owned(),
            ports: 4,
            policy: "dclas".to_owned(),
            now_ns,
            rounds: now_ns / 10_000_000,
            coflows,
            ..View::default()
        }
    }

    fn drawn(picture: &mut Picture) -> String {
        drawn_at(picture, 80)
    }

    fn drawn_at(picture: &mut Picture, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 14)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    /// Fifty coflows, of which the later ones have sent less.
    fn many() -> Picture {
        let mut picture = Picture::default();
        picture.take(Ok(view(1, (0..50).map(|number| coflow(number, 1_000 - number)).collect())));
        picture
    }

    fn press(picture: &mut Picture, keys: &str) -> Option<Wish> {
        let code = |letter| match letter {
            '↓' => KeyCode::Down,
            '⇣' => KeyCode::PageDown,
            '⏎' => KeyCode::Enter,
            '⎋' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        keys.chars().map(|letter| picture.press(KeyEvent::from(code(letter)))).last().flatten()
    }

    #[test]
    fn what_was_registered_with_no_bytes_and_sends_none_is_not_on_the_screen() {
        let root = Coflow { size_bytes: Some(0), open: 0, off: 0, ..coflow(7, 0) };
        let mut picture = Picture::default();
        picture.take(Ok(view(1, vec![root.clone(), coflow(8, 0), Coflow { resting: 1, ..root }])));
        let text = drawn(&mut picture);
        assert!(text.contains("2 coflows") && text.contains("sort-8"), "{text}");
        assert_eq!(text.matches("sort-7").count(), 1, "one of them has a flow: {text}");
    }

    #[test]
    fn rates_come_from_two_looks_and_a_lost_connection_keeps_the_picture() {
        let mut picture = Picture::default();
        picture.take(Ok(view(1_000_000_000, vec![coflow(7, 1_000_000)])));
        picture.take(Ok(view(3_000_000_000, vec![coflow(7, 251_000_000)])));
        let text = drawn(&mut picture);
        for part in
            ["policy dclas", "1.0 Gb/s", "100 rounds/s", "2 open, 0 paced, 1 off", "0000007", "sort-7"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        picture.take(Err(AdministrationError::Failed("it is being stopped".to_owned())));
        let text = drawn(&mut picture);
        assert!(text.contains("it is being stopped") && text.contains("sort-7"), "{text}");
    }

    #[test]
    fn the_longest_figures_fit_into_eighty_columns() {
        let mut picture = Picture::default();
        picture.take(Ok(view(1, vec![coflow(7, 0)])));
        picture.take(Ok(view(1_000_000_001, vec![coflow(7, 124_987_500_000)])));
        let text = drawn(&mut picture);
        let figures = ["999.9 Gb/s", "125.0 GB", "999.9 GB", "9999.9 s"];
        for part in HEADER.iter().chain(&figures).chain(&["q end", "/ filter"]) {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn rows_scroll_with_the_selection_which_stays_with_its_coflow_in_every_order() {
        let mut picture = many();
        let text = drawn(&mut picture);
        assert!(text.contains("sort-0 ") && !text.contains("sort-20"), "{text}");
        press(&mut picture, "⇣⇣↓↓");
        let text = drawn(&mut picture);
        assert!(text.contains("sort-18") && !text.contains("sort-0 "), "{text}");
        let selected = press(&mut picture, "w");
        assert_eq!(selected, Some(Wish::Why("18.0.18".to_owned())));
        press(&mut picture, "sssr");
        assert_eq!(press(&mut picture, "⏎"), selected);
    }

    #[test]
    fn coflows_are_sorted_reversed_and_filtered() {
        let mut picture = many();
        let first = |picture: &mut Picture| drawn(picture).lines().nth(5).unwrap()[1..8].to_owned();
        press(&mut picture, "ss");
        assert_eq!(first(&mut picture), "0000000", "it has sent most");
        press(&mut picture, "r");
        assert_eq!(first(&mut picture), "0000031");
        press(&mut picture, "/SORT-4⏎");
        assert_eq!(first(&mut picture), "0000031", "49 is one");
        press(&mut picture, "r");
        assert_eq!(first(&mut picture), "0000004");
        assert!(drawn(&mut picture).contains("filter: SORT-4"));
        assert_eq!(press(&mut picture, "⎋"), None, "it ends the filter first");
        assert_eq!(first(&mut picture), "0000000");
        press(&mut picture, "/000001⏎");
        assert_eq!(first(&mut picture), "0000010", "by the first digits of an id");
        assert_eq!(press(&mut picture, "⎋⎋"), Some(Wish::End));
    }

    #[test]
    fn an_explanation_names_the_command_and_closes_with_a_key() {
        let mut picture = many();
        let text: String = (0..20).map(|line| format!("reason {line} \n")).collect();
        picture.explain(text);
        let shown = drawn(&mut picture);
        assert!(shown.contains("cavalcade why 0000000") && shown.contains("reason 0 "), "{shown}");
        press(&mut picture, "↓↓");
        assert!(!drawn(&mut picture).contains("reason 1 "));
        assert_eq!(press(&mut picture, "q"), None);
        assert!(!drawn(&mut picture).contains("reason"));
    }

    #[test]
    fn a_switch_is_shown_by_ports_with_their_rates() {
        let look = |now_ns: u64, bytes: u64| {
            let spc = SwitchClass { bytes, dropped: 3, ..SwitchClass::default() };
            let port = SwitchPort {
                name: "eth7".to_owned(),
                rate_bps: 1_000_000_000,
                granted_bps: 800_000_000,
                spc: Some(spc),
                tasks: 2,
                ..SwitchPort::default()
            };
            let switch = Switch { id: 0xab, ports: vec![port], ..Switch::default() };
            View { role: "switch".to_owned(), now_ns, switch: Some(switch), ..View::default() }
        };
        let mut picture = Picture::default();
        picture.take(Ok(look(1_000_000_000, 1_000_000)));
        picture.take(Ok(look(2_000_000_000, 101_000_000)));
        let (narrow, wide) = (drawn(&mut picture), drawn_at(&mut picture, 120));
        for part in
            ["switch 00000000000000ab", "800.0 Mb/s", "eth7", "800Mbps", "101.0 MB", "granted", "lost"]
        {
            assert!(narrow.contains(part) && wide.contains(part), "{part} in\n{narrow}\n{wide}");
        }
        assert!(
            !narrow.contains("link") && wide.contains("1Gbps") && wide.contains("questions"),
            "{narrow}\n{wide}"
        );
        // There are no coflows to choose from.
        assert_eq!(press(&mut picture, "↓ssw"), None);
    }
}
