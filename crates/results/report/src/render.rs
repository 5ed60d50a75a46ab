//! Turns the drawing of a figure into a file: SVG, PDF or PNG.
//!
//! All have text in a font that is part of the program, DejaVu Sans Condensed: the same figure has
//! the same bytes on every machine and looks the same on each, whatever fonts it has. The PDF
//! embeds the font, so its text can be searched; the SVG has its outlines.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use resvg::{tiny_skia, usvg};
use usvg::fontdb::{Database, Source};

mod outline;

pub use outline::svg;

/// Pixels to a point of a PNG: 300 to an inch, as printers ask for.
const PIXELS: f32 = 300.0 / 72.0;
/// Points to a pixel of CSS, in which usvg measures.
const POINTS: f32 = 72.0 / 96.0;

/// A figure that cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// What is no SVG file.
    #[error("not an SVG file: {0}")]
    Svg(String),
    /// A picture that is too large, or has no area.
    #[error("a picture of {width} by {height} pixels: expected 1 to 30000 either way")]
    Size {
        /// Its width.
        width: u64,
        /// Its height.
        height: u64,
    },
    /// What the writer of PDF or PNG refuses.
    #[error("cannot be written: {0}")]
    Write(String),
}

/// The kind of file that a figure is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureFile {
    /// By [`svg`].
    Svg,
    /// By [`pdf`].
    Pdf,
    /// By [`png`].
    Png,
}

impl FigureFile {
    /// By the ending of a file's name; `None` where it is another.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("svg") => Some(Self::Svg),
            Some("pdf") => Some(Self::Pdf),
            Some("png") => Some(Self::Png),
            _ => None,
        }
    }

    /// The content of such a file.
    ///
    /// # Errors
    /// If it is no SVG file, or too large.
    pub fn of_drawing(self, drawing: &str) -> Result<Vec<u8>, RenderError> {
        match self {
            Self::Svg => svg(drawing).map(String::into_bytes),
            Self::Pdf => pdf(drawing),
            Self::Png => png(drawing),
        }
    }
}

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    for font in [dejavu::sans_condensed::regular(), dejavu::sans_condensed::bold()] {
        fonts.load_font_source(Source::Binary(Arc::new(font)));
    }
    // The family of both, by the name that the fonts give themselves.
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

fn parse(drawing: &str) -> Result<usvg::Tree, RenderError> {
    let options = usvg::Options { fontdb: FONTS.clone(), ..usvg::Options::default() };
    usvg::Tree::from_str(drawing, &options).map_err(|error| RenderError::Svg(error.to_string()))
}

/// Renders a drawing as PDF of the same size, with text that can be searched and its font embedded.
///
/// # Errors
/// If it is no SVG file.
pub fn pdf(drawing: &str) -> Result<Vec<u8>, RenderError> {
    let tree = parse(drawing)?;
    let page = svg2pdf::PageOptions { dpi: 96.0 };
    svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page)
        .map_err(|error| RenderError::Write(error.to_string()))
}

/// Renders a drawing as PNG of 300 pixels to an inch.
///
/// # Errors
/// If it is no SVG file, or too large.
pub fn png(drawing: &str) -> Result<Vec<u8>, RenderError> {
    const MOST: f32 = 30_000.0;
    let tree = parse(drawing)?;
    let scale = PIXELS * POINTS;
    let [width, height] = [tree.size().width(), tree.size().height()].map(|side| (side * scale).ceil());
    let sizes = || RenderError::Size { width: width as u64, height: height as u64 };
    let fits = |side: f32| (1.0..=MOST).contains(&side);
    let picture = (fits(width) && fits(height)).then(|| tiny_skia::Pixmap::new(width as u32, height as u32));
    let mut picture = picture.flatten().ok_or_else(sizes)?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut picture.as_mut());
    picture.encode_png().map_err(|error| RenderError::Write(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"240pt\" height=\"120pt\" viewBox=\"0 0 360 180\" \
                          font-family=\"Helvetica, sans-serif\"><rect fill=\"#fff\" width=\"360\" height=\"180\"/><text x=\"20\" \
                          y=\"90\" fill=\"#d55e00\">share of coflows</text></svg>";

    #[test]
    fn a_pdf_has_the_size_of_the_figure_and_its_font() {
        let pdf = pdf(FIGURE).unwrap();
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.starts_with("%PDF-"));
        assert!(text.contains("[0 0 240 120]"), "{}", &text[..400]);
        assert!(text.contains("DejaVuSansCondensed"));
        assert_eq!(pdf, super::pdf(FIGURE).unwrap());
    }

    #[test]
    fn a_picture_has_300_pixels_to_an_inch_and_text_without_any_font_installed() {
        let bytes = png(FIGURE).unwrap();
        let picture = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((picture.width(), picture.height()), (1000, 500));
        let is_ink = |pixel: &&tiny_skia::PremultipliedColorU8| (pixel.red(), pixel.blue()) == (0xd5, 0);
        assert!(picture.pixels().iter().filter(is_ink).count() > 500);
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        assert!(matches!(pdf("hello"), Err(RenderError::Svg(_))));
        let vast = FIGURE.replace("240pt", "90000pt");
        assert!(matches!(png(&vast), Err(RenderError::Size { .. })));
    }
}
