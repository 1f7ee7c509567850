// Puts the figures in place, gives the texts on their canvases the page's colours, and
// lets the legend hide a series in all figures at once.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const hidden = new Set();
  Bokeh.logger.set_level("warn");

  function paint() {
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--muted").trim();
    const line = style.getPropertyValue("--line").trim();
    for (const document_ of Bokeh.documents) {
      for (const model of document_.all_models) {
        if (model.type.endsWith("Axis")) {
          model.setv({
            axis_label_text_color: text, major_label_text_color: text,
            axis_line_color: line, major_tick_line_color: line,
          });
        } else if (model.type === "GlyphRenderer" && model.glyph.type === "Text") {
          model.glyph.setv({ text_color: style.getPropertyValue("--text").trim() });
        } else if (model.type === "Grid") {
          model.setv({ grid_line_color: line });
        }
      }
    }
  }

  function show() {
    for (const document_ of Bokeh.documents) {
      for (const model of document_.all_models) {
        if (model.type === "GlyphRenderer" && /^(series|seed)-/.test(model.name || "")) {
          model.visible = !hidden.has(model.name);
        }
      }
    }
  }

  for (const button of document.querySelectorAll("button[data-series]")) {
    button.addEventListener("click", function () {
      const name = button.dataset.series;
      const on = hidden.has(name);
      if (on) { hidden.delete(name); } else { hidden.add(name); }
      button.setAttribute("aria-pressed", String(on));
      show();
    });
  }

  Promise.all(data.map((item) => Bokeh.embed.embed_item(item, item.target_id))).then(paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
})();
