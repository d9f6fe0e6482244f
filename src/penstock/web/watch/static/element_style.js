// The looks of <penstock-player>: a sheet of its own, which pages of other sites neither see nor change.
//
// Made as an object, since a page's policy may forbid styles that are written into it. Pages may set
// `--penstock-accent`.

export const style = new CSSStyleSheet();
style.replaceSync(`
:host {
  --accent: var(--penstock-accent, #38bdf8);
  display: block; position: relative; overflow: hidden; aspect-ratio: 16 / 9; background: #05080d; color: #f4f7fb;
  font: 500 15px/1.4 system-ui, -apple-system, "Segoe UI", sans-serif; user-select: none; -webkit-user-select: none;
}
:host([hidden]) { display: none; }
:host(:fullscreen) { aspect-ratio: auto; border-radius: 0; }
video { display: block; width: 100%; height: 100%; object-fit: contain; }
button { all: unset; box-sizing: border-box; cursor: pointer; color: inherit; font: inherit; }
button:focus-visible, input:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 8px; }
svg { display: block; width: 24px; height: 24px; fill: currentColor; }
[hidden] { display: none !important; }

.veil {
  position: absolute; inset: 0; display: grid; place-content: center; justify-items: center; gap: 14px;
  padding: 24px 24px 64px; text-align: center; pointer-events: none; background: rgb(5 8 13 / .55);
  animation: appear .2s .35s both;
}
.veil.at-once { animation-delay: 0s; }
.veil > * { pointer-events: auto; }
.words { margin: 0; max-width: 34ch; font-size: clamp(15px, 2.4vw, 19px); text-wrap: balance; text-shadow: 0 1px 3px #000a; }
.spinner {
  width: 38px; height: 38px; border-radius: 50%; border: 3px solid rgb(255 255 255 / .22); border-top-color: var(--accent);
  animation: turn .9s linear infinite;
}
.again { padding: 9px 20px; border-radius: 999px; background: var(--accent); color: #04111c; font-weight: 650; }
.again:hover { filter: brightness(1.1); }
.big { display: grid; place-items: center; width: 76px; height: 76px; border-radius: 50%; background: var(--accent); color: #04111c; }
.big svg { width: 40px; height: 40px; }

.sound-off {
  position: absolute; top: 14px; left: 14px; display: flex; align-items: center; gap: 8px; padding: 8px 16px 8px 11px;
  border-radius: 999px; background: #fff; color: #0a1420; font-weight: 650; box-shadow: 0 2px 12px #0007;
}
.sound-off:hover { background: #e6f4fd; }

.note {
  position: absolute; top: 14px; right: 14px; margin: 0; padding: 8px 14px; border-radius: 999px; background: rgb(5 8 13 / .72);
  font-size: 14px;
}

.bar {
  position: absolute; inset: auto 0 0 0; display: flex; align-items: center; gap: 4px; padding: 34px 10px 8px;
  background: linear-gradient(transparent, rgb(0 0 0 / .72)); transition: opacity .25s;
}
:host(.quiet) .bar { opacity: 0; }
:host(.quiet) { cursor: none; }
.bar button { display: grid; place-items: center; min-width: 40px; height: 40px; border-radius: 9px; }
.bar button:hover { background: rgb(255 255 255 / .16); }
.bar .space { flex: 1; }
.bar input { width: 84px; height: 24px; margin: 0 6px 0 0; accent-color: var(--accent); cursor: pointer; }
.bar .live {
  display: flex; align-items: center; gap: 8px; padding: 0 12px; font-weight: 650; font-size: 14px; letter-spacing: .02em;
  font-variant-numeric: tabular-nums;
}
.live::before { content: ""; width: 9px; height: 9px; border-radius: 50%; background: #8a97a8; }
.live.now::before { background: #ff4d4f; box-shadow: 0 0 0 3px #ff4d4f44; }
.live .behind { font-weight: 450; opacity: .85; }
@container (max-width: 420px) { .bar input, .live .behind { display: none; } }
:host { container-type: inline-size; }

@keyframes turn { to { transform: rotate(1turn); } }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .spinner { animation-duration: 3s; } .bar, .veil { transition: none; } }
`);
