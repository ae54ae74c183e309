// Colours, shapes and what all charts have in common. Not what they draw.

// Told apart with every common kind of colour blindness (after Okabe and Ito, and Tol), with 3:1 or more
// against their background; beyond eight series, shapes tell them apart as well.
const COLOURS = {
  light: ["#0072b2", "#c44e00", "#00795a", "#a8327d", "#8a6d00", "#3b8ec2", "#5b5b66", "#7a2048"],
  dark: ["#56b4e9", "#ff8c42", "#2fc79b", "#e58fc4", "#e8c33c", "#8fb8ff", "#b9b9c6", "#ff7d8f"],
};
const SHAPES = ["circle", "rect", "triangle", "diamond"];
// Cividis, from dark to bright: read alike with and without colour vision.
const SCALE = ["#00204d", "#2f3d6d", "#575d6d", "#7c7b78", "#a69d75", "#d3c164", "#ffea46"];

/** Whether the page goes to paper now, where nobody presses buttons. */
let printing = false;
/** Width of charts on paper, pixels of CSS: A4 and Letter less their margins hold it. Nothing tells a script how wide it is. */
const PAPER = 680;

/** Whether the page is dark now. */
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function colour(number) {
  const colours = COLOURS[isDark() ? "dark" : "light"];
  return colours[number % colours.length];
}

function shape(number) {
  return SHAPES[Math.floor(number / COLOURS.light.length + number) % SHAPES.length];
}

/** Colours of the page that charts use for text and lines. */
function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  return { text: ink("--text"), faint: ink("--faint"), line: ink("--line"), paper: ink("--paper"), wrong: ink("--wrong") };
}

/** What every chart has. `name` is the file's name when it is saved. */
function commonOptions(name) {
  const { text, paper, line } = inks();
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: text, fontFamily: "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif", fontSize: 12 },
    aria: { enabled: true },
    tooltip: {
      confine: true,
      backgroundColor: paper,
      borderColor: line,
      textStyle: { color: text, fontSize: 12 },
      transitionDuration: 0,
    },
    toolbox: {
      show: !printing,
      right: 8,
      top: 0,
      itemSize: 14,
      iconStyle: { borderColor: text },
      feature: { saveAsImage: { name, title: "Save as SVG", backgroundColor: paper } },
    },
  };
}

/** A chart in an element: drawn anew by `draw` when its size or the theme changes. */
function chartIn(holder, draw) {
  const chart = busbwCharts.init(holder, null, { renderer: "svg" });
  const again = () => draw(chart);
  again();
  new ResizeObserver(() => {
    if (holder.clientWidth === chart.getWidth() && holder.clientHeight === chart.getHeight()) return;
    chart.resize({ animation: { duration: 0 } });
    again();
  }).observe(holder);
  addEventListener("busbw:look", () => {
    chart.resize({ width: printing ? PAPER : "auto", animation: { duration: 0 } });
    again();
  });
  return { chart, again };
}
