// Unpacks Bokeh and the figures and puts them in place, gives the texts on their canvases the
// page's colours, lets the legend hide a series in all figures at once, copies commands, and
// opens all for printing.
"use strict";
(function () {
  const hidden = new Set();

  // The text that stands compressed in the element of that name.
  async function unpacked(name) {
    const bytes = Uint8Array.from(
      atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function draw() {
    const library = document.createElement("script");
    library.textContent = await unpacked("bokeh");
    document.head.append(library);
    Bokeh.logger.set_level("warn");
    const data = JSON.parse(await unpacked("figures"));
    await Promise.all(data.map((item) => Bokeh.embed.embed_item(item, item.target_id)));
    paint();
    while (!Bokeh.documents.every((one) => one.is_idle)) {
      await new Promise(requestAnimationFrame);
    }
    document.documentElement.dataset.drawn = "yes";
  }

  function models() {
    return (window.Bokeh ? Bokeh.documents : []).flatMap((one) => [...one.all_models]);
  }

  function paint() {
    const style = getComputedStyle(document.documentElement);
    const [text, muted, line, font] = ["--text", "--muted", "--line", "--sans"].map(
      (name) => style.getPropertyValue(name).trim());
    for (const model of models()) {
      if (model.type.endsWith("Axis")) {
        model.setv({
          axis_label_text_color: muted, axis_label_text_font: font,
          major_label_text_color: model.type === "CategoricalAxis" ? text : muted,
          major_label_text_font: font,
        });
      } else if (model.type === "Grid") {
        model.setv({ grid_line_color: line });
      } else if (model.type === "Label") {
        model.setv({ text_font: font });
      }
    }
  }

  function show() {
    for (const model of models()) {
      if (model.type === "GlyphRenderer" && /^(series|seed)-/.test(model.name || "")) {
        model.visible = !hidden.has(model.name);
      }
    }
    for (const button of document.querySelectorAll("button[data-series], button[data-group]")) {
      const names = (button.dataset.series || button.dataset.group).split(" ");
      button.setAttribute("aria-pressed", String(!names.every((name) => hidden.has(name))));
    }
  }

  for (const button of document.querySelectorAll("button[data-series], button[data-group]")) {
    button.addEventListener("click", function () {
      const on = button.getAttribute("aria-pressed") === "true";
      for (const name of (button.dataset.series || button.dataset.group).split(" ")) {
        if (on) { hidden.add(name); } else { hidden.delete(name); }
      }
      show();
    });
  }

  for (const block of document.querySelectorAll("pre.copied")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async function () {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
      }
    });
    block.before(button);
  }

  let closed = [];
  function print(on) {
    if (on && !closed.length) {
      closed = [...document.querySelectorAll("details:not([open])")];
      for (const one of closed) { one.open = true; }
    } else if (!on) {
      for (const one of closed) { one.open = false; }
      closed = [];
    }
    paint();
  }

  draw().catch(function () {
    const note = document.createElement("p");
    note.className = "mark";
    note.textContent = "The figures need a browser of 2023 or later; every value is in a table.";
    document.querySelector("header").append(note);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
})();
