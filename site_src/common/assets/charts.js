/* The interactive form of a chart, on demand. Without this script a page loses nothing but its buttons.
   A figure holds its drawing and, in <template class="spec">, data and layout for Plotly without colours. */
(function () {
  "use strict";

  const SOURCE = new URL("plotly-basic-4.1.1.min.js", document.currentScript.src).href;
  const NARROW = "(max-width: 44.9375em)"; // as in charts.css
  const CONFIG = { displaylogo: false, showSendToCloud: false, responsive: true };
  const BUTTONS = ["zoom2d", "pan2d", "resetScale2d", "toImage"];
  const KOREAN = {
    moduleType: "locale",
    name: "ko",
    dictionary: {
      "Autoscale": "자동 범위",
      "Double-click to zoom back out": "두 번 눌러 원래 범위로",
      "Download plot": "그림으로 저장",
      "Download plot as a PNG": "PNG로 저장",
      "Pan": "이동",
      "Reset axes": "원래 범위로",
      "Snapshot succeeded": "저장했습니다",
      "Sorry, there was a problem downloading your snapshot!": "그림을 저장하지 못했습니다",
      "Taking snapshot - this may take a few seconds": "그림을 만드는 중입니다",
      "Zoom": "확대",
    },
    format: { decimal: ".", thousands: "," },
  };

  let library = null; // the promise of Plotly, made once

  function load() {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = SOURCE;
      script.onload = () => {
        window.Plotly.register(KOREAN);
        resolve(window.Plotly);
      };
      script.onerror = () => {
        library = null; // so that the next click tries again
        script.remove();
        reject(new Error(SOURCE));
      };
      document.head.append(script);
    });
    return library;
  }

  function prefetch(event) {
    if (event.pointerType !== "mouse" || library || document.querySelector(`link[href="${SOURCE}"]`)) return;
    const link = Object.assign(document.createElement("link"), { rel: "prefetch", as: "script", href: SOURCE });
    document.head.append(link);
  }

  /* Colours as the theme has them now. */
  function palette() {
    const style = getComputedStyle(document.body);
    return (name) => style.getPropertyValue(name).trim();
  }

  function shapeLook(name, colour) {
    if (name === "worse") return { fillcolor: colour("--loss"), line: { width: 0 } };
    if (name === "even") return { line: { color: colour("--loss-edge"), width: 1.5 } };
    if (name === "gap") return { fillcolor: colour("--quiet"), opacity: 0.12, line: { width: 0 } };
    return { line: { color: colour(name === "measured" ? "--quiet" : `--${name}`), width: 1.5 } };
  }

  function coloured(trace, colour) {
    const [number, hollow] = [trace.meta].flat();
    const line = colour(`--line-${number}`);
    const marker = { ...trace.marker, color: hollow ? colour("--md-default-bg-color") : line };
    if (trace.type === "bar") marker.line = { color: line, width: hollow ? 2 : 0 };
    const found = { ...trace, marker };
    if (trace.line) found.line = { ...trace.line, color: line };
    for (const name of ["error_x", "error_y"]) {
      if (trace[name]) found[name] = { ...trace[name], color: colour(trace.type === "bar" ? "--md-typeset-color" : `--line-${number}`) };
    }
    return found;
  }

  function axis(given, colour, fixed) {
    const line = { gridcolor: colour("--rule"), zerolinecolor: colour("--rule"), linecolor: colour("--rule") };
    const title = { ...given.title, font: { size: 13, color: colour("--quiet") } };
    return { ...given, ...line, title, fixedrange: fixed, automargin: true };
  }

  function layout(given, colour) {
    const narrow = matchMedia(NARROW).matches;
    return {
      ...given,
      title: { ...given.title, font: { size: 13, color: colour("--quiet") }, x: 0, xanchor: "left", y: 1, yanchor: "top", pad: { t: 4 } },
      xaxis: axis(given.xaxis, colour, narrow),
      yaxis: axis(given.yaxis, colour, narrow),
      shapes: given.shapes.map((shape) => {
        const look = shapeLook(shape.name, colour);
        return { ...shape, ...look, line: { ...shape.line, ...look.line } };
      }),
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--md-typeset-color") },
      hoverlabel: { bgcolor: colour("--md-default-bg-color"), font: { color: colour("--md-typeset-color") } },
      showlegend: given.showlegend !== false && !narrow, // the page's own legend stands under a narrow chart
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      dragmode: narrow ? false : "zoom",
      autosize: true,
    };
  }

  async function draw(plotly, box) {
    const colour = palette();
    const narrow = matchMedia(NARROW).matches;
    const options = {
      ...CONFIG,
      locale: document.documentElement.lang,
      displayModeBar: narrow ? false : "hover",
      modeBarButtons: [BUTTONS],
    };
    const data = box.spec.data.map((one) => coloured(one, colour));
    await plotly.react(box.plot, data, layout(box.spec.layout, colour), options);
    // One picture with the drawing's own name, and beside it the buttons, which a keyboard reaches.
    box.plot.querySelectorAll(".main-svg").forEach((svg, index) => {
      if (index) return svg.setAttribute("aria-hidden", "true");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-labelledby", box.name);
    });
  }

  const live = new Map(); // figure -> {plot, spec, name}

  function show(plotly, figure) {
    const drawing = [...figure.querySelectorAll(".chart")].find((one) => one.getBoundingClientRect().height);
    const plot = document.createElement("div");
    plot.className = "chart-plot";
    plot.style.height = `${drawing.getBoundingClientRect().height}px`; // so that the page does not jump
    const spec = JSON.parse(figure.querySelector("template.spec").content.textContent);
    const holder = figure.querySelector(".chart-box");
    holder.append(plot);
    holder.classList.add("chart-box-live");
    live.set(figure, { plot, spec, name: drawing.getAttribute("aria-labelledby") });
    return draw(plotly, live.get(figure));
  }

  function drop(figure) {
    const box = live.get(figure);
    if (!box) return;
    live.delete(figure);
    window.Plotly.purge(box.plot);
    box.plot.remove();
    figure.querySelector(".chart-box").classList.remove("chart-box-live");
    const button = figure.querySelector(".chart-live");
    button.textContent = button.dataset.start;
  }

  async function toggle(figure, button) {
    const status = figure.querySelector(".chart-status");
    status.textContent = "";
    if (live.has(figure)) return drop(figure);
    button.textContent = button.dataset.loading;
    button.setAttribute("aria-busy", "true");
    try {
      await show(await load(), figure);
      button.textContent = button.dataset.back;
    } catch (error) {
      drop(figure);
      button.textContent = button.dataset.start;
      status.textContent = button.dataset.failed;
    }
    button.removeAttribute("aria-busy");
  }

  function start() {
    for (const figure of live.keys()) if (!figure.isConnected) live.delete(figure);
    for (const button of document.querySelectorAll(".chart-live[hidden]")) {
      const figure = button.closest("figure");
      button.hidden = false;
      button.dataset.start = button.textContent;
      button.addEventListener("pointerenter", prefetch);
      button.addEventListener("click", () => {
        if (!button.hasAttribute("aria-busy")) toggle(figure, button);
      });
    }
  }

  function redraw() {
    if (live.size) load().then((plotly) => live.forEach((box) => draw(plotly, box)));
  }

  function begin() {
    new MutationObserver(redraw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
    matchMedia(NARROW).addEventListener("change", redraw);
    window.addEventListener("beforeprint", () => [...live.keys()].forEach(drop));
    // Material replaces the content of a page without loading it again when instant navigation is on.
    if (window.document$) window.document$.subscribe(start);
    else start();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
