import { fields } from "./form.js";

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => String(text).replace(/[&<>"']/g, (character) => escapes[character]);

const style = `
:root { color-scheme: light; font-family: ui-serif, Georgia, serif; line-height: 1.5; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4efe4; color: #2b2620; }
main { width: min(62rem, 100% - 3rem); margin: 3rem auto; }
h1 { margin: 0 0 .25rem; font-size: 2.25rem; letter-spacing: -.01em; }
p { margin: 0; }
.lead, .facts, .empty { color: #76695a; }
.columns { display: grid; grid-template-columns: 20rem 1fr; gap: 2rem; align-items: start; margin: 2rem 0; }
@media (max-width: 48rem) { .columns { grid-template-columns: 1fr; } }
form, .notice { background: #fffdf8; border: 1px solid #e2d8c5; border-radius: .75rem; padding: 1.25rem; }
label { display: block; margin-bottom: 1rem; font-size: .9rem; color: #76695a; }
input, textarea { display: block; width: 100%; margin-top: .25rem; padding: .55rem .7rem; font: inherit; font-size: 1rem; color: #2b2620; background: #fff; border: 1px solid #d3c6ae; border-radius: .4rem; }
textarea { resize: vertical; min-height: 5.5rem; }
button { width: 100%; padding: .65rem; font: inherit; font-size: 1rem; color: #fffdf8; background: #33513f; border: 0; border-radius: .4rem; cursor: pointer; }
button:hover { background: #26402f; }
input:focus-visible, textarea:focus-visible, button:focus-visible { outline: 3px solid #8fb39b; outline-offset: 1px; }
.notice { margin-top: 2rem; border-left: .4rem solid #a8452c; }
.notice h2 { margin: 0 0 .25rem; font-size: 1.15rem; }
ol { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem; }
li { background: #fffdf8; border: 1px solid #e2d8c5; border-left: .6rem solid #33513f; border-radius: .3rem .75rem .75rem .3rem; padding: .8rem 1.1rem; overflow-wrap: anywhere; }
li.spine-1 { border-left-color: #a8452c; } li.spine-2 { border-left-color: #2f5d80; } li.spine-3 { border-left-color: #c79a2e; } li.spine-4 { border-left-color: #6b4a75; }
li h2 { display: inline; margin: 0; font-size: 1.15rem; }
li .by { color: #76695a; }
li .note { margin-top: .25rem; }
time { display: block; margin-top: .25rem; font-size: .8rem; color: #76695a; }
.facts { font-size: .85rem; }
`;

const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });
const spines = 5;

const bookItem = ({ id, title, author, note, createdAt }) => `<li class="spine-${id % spines}"><h2>${escape(title)}</h2>${
  author && ` <span class="by">by ${escape(author)}</span>`
}${note && `<p class="note">${escape(note)}</p>`}<time datetime="${createdAt.toISOString()}">${day.format(createdAt)}</time></li>`;

function input({ name, label, lengthMax, required }, value) {
  const attributes = `name="${name}" maxlength="${lengthMax}"${required ? " required" : ""} autocomplete="off"`;
  const control = name === "note" ? `<textarea ${attributes}>${escape(value)}</textarea>` : `<input ${attributes} value="${escape(value)}">`;
  return `<label>${label}${control}</label>`;
}

const notice = ({ heading, text }) => `<div class="notice" role="alert"><h2>${escape(heading)}</h2><p>${escape(text)}</p></div>`;

function shelf({ books, total }) {
  if (books.length === 0) return '<p class="empty">Nothing is on the list yet. Which book should be the first?</p>';
  const rest = total > books.length ? `<p class="empty">And ${total - books.length} older ones.</p>` : "";
  return `<div><ol>${books.map(bookItem).join("")}</ol>${rest}</div>`;
}

/**
 * The whole page. `list` is what is on the reading list, null when that cannot be told; `problem` ({ heading, text }) is
 * shown above all else; `values` are what the form holds, so that nobody types a book twice.
 */
export function page({ list, problem = null, values = {}, deploymentId }) {
  const form = `<form method="post" action="/books">${fields.map((field) => input(field, values[field.name] ?? "")).join("")}<button>Put it on the list</button></form>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reading list</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>Reading list</h1>
<p class="lead">Books that the library should have, as its readers see it.</p>
${problem === null ? "" : notice(problem)}
<div class="columns">${form}${list === null ? "" : shelf(list)}</div>
<p class="facts">This is the database example of svc. The list is in a managed Postgres, and outlives deployment ${escape(deploymentId)}.</p>
</main>
</body>
</html>
`;
}
