const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => String(text).replace(/[&<>"]/g, (character) => escapes[character]);

const style = `
:root { color-scheme: dark; font-family: ui-sans-serif, system-ui, sans-serif; line-height: 1.5; }
body { margin: 0; background: #101312; color: #e8ece9; }
main { width: min(56rem, 100% - 3rem); margin: 3rem auto; }
h1 { margin: 0 0 .25rem; font-size: 2rem; }
p { margin: 0 0 1.5rem; color: #9aa6a0; }
table { width: 100%; border-collapse: collapse; background: #171c1a; border: 1px solid #2a322e; border-radius: .75rem; overflow: hidden; }
th, td { text-align: left; padding: .7rem 1.1rem; border-bottom: 1px solid #232a27; }
tr:last-child td { border-bottom: 0; }
th { color: #9aa6a0; font-weight: 500; font-size: .85rem; }
.board td { font: 600 1.15rem ui-monospace, monospace; color: #ffc857; letter-spacing: .03em; }
.board td.to { color: #f6f7f4; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.1rem; }
.facts td:first-child { color: #9aa6a0; width: 16rem; }
.facts td { font: 0.9rem ui-monospace, monospace; word-break: break-all; }
`;

const row = (cells) => `<tr>${cells.map(({ text, name }) => `<td${name ? ` class="${name}"` : ""}>${escape(text)}</td>`).join("")}</tr>`;

/** The whole page: departures first, then which deployment rendered them. */
export function page(departures, { platform, ...own }) {
  const board = departures.map(({ to, platform: track, inMinutes }) =>
    row([{ text: to, name: "to" }, { text: track }, { text: inMinutes === 0 ? "now" : `${inMinutes} min` }]),
  );
  const facts = [...Object.entries(own), ...Object.entries(platform)].map(([name, value]) => row([{ text: name }, { text: value }]));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Departure board</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>Departures</h1>
<p>Rendered on the server for this request. This is the ssr example of svc.</p>
<table class="board"><thead><tr><th>To</th><th>Platform</th><th>Leaves in</th></tr></thead><tbody>${board.join("")}</tbody></table>
<h2>Which deployment is this?</h2>
<table class="facts"><tbody>${facts.join("")}</tbody></table>
</main>
</body>
</html>
`;
}
