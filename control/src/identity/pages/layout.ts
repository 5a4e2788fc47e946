import { Html, html } from "./html.ts";

export interface Page {
  title: string;
  /** What the card holds. */
  body: Html;
  /** Address of the signed-in account; null when nobody is. */
  account?: string | null;
  /** For lists and texts rather than one form. */
  wide?: boolean;
  /** Origin of another site that a form of the page leads to in the end; browsers ask for that beforehand. */
  leadsTo?: string | null;
}

export interface Site {
  /** Name of the installation, as in its address. */
  instance: string;
  /** Path of the style sheet. */
  stylesheet: string;
}

/** Two stacked layers: what runs, on what it runs on. */
export const mark = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32" fill="none">
<path d="M16 3 29 10 16 17 3 10Z" fill="#ff6a3d"/><path d="M3 16l13 7 13-7" stroke="#8a8fa3" stroke-width="3" stroke-linejoin="round" stroke-linecap="round"/><path d="M3 22l13 7 13-7" stroke="#8a8fa3" stroke-opacity=".5" stroke-width="3" stroke-linejoin="round" stroke-linecap="round"/>
</svg>
`;

const wordmark = html`<a class="brand" href="/"><span class="brand-mark" aria-hidden="true">${new Html(mark)}</span><span>svc</span></a>`;

const accountBar = (email: string) => html`<form class="account" method="post" action="/sign-out">
  <span class="account-email">${email}</span>
  <button class="link" type="submit">Sign out</button>
</form>`;

/** The whole document. Nothing in it runs, so it works the same without JavaScript. */
export const renderPage = (
  { instance, stylesheet }: Site,
  { title, body, account = null, wide = false }: Page,
): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title} · ${instance}</title>
<link rel="icon" type="image/svg+xml" href="/assets/mark.svg">
<link rel="stylesheet" href="${stylesheet}">
</head>
<body>
<header class="top">${wordmark}${account === null ? null : accountBar(account)}</header>
<main class="card${wide ? " wide" : ""}">
${body}
</main>
<footer class="foot"><span>${instance}</span></footer>
</body>
</html>
`.text;

/** A sentence that has to be seen. `role=alert` makes screen readers say it at once. */
export const notice = (kind: "error" | "success" | "info", text: Html | string): Html =>
  html`<p class="notice ${kind}" role="${kind === "error" ? "alert" : "status"}">${text}</p>`;

export interface Field {
  name: string;
  label: string;
  type: "text" | "email" | "password";
  autocomplete: string;
  value?: string;
  hint?: string;
  minLength?: number;
  maxLength?: number;
  /** The one that is typed into first. */
  first?: boolean;
  extra?: Html;
}

export const field = ({
  name,
  label,
  type,
  autocomplete,
  value = "",
  hint,
  minLength,
  maxLength,
  first,
  extra,
}: Field): Html =>
  html`<div class="field">
  <label for="${name}">${label}</label>
  <input id="${name}" name="${name}" type="${type}" autocomplete="${autocomplete}" value="${value}" required${first ? html` autofocus` : null}${
    hint ? html` aria-describedby="${name}-hint"` : null
  }${minLength ? html` minlength="${minLength}"` : null}${maxLength ? html` maxlength="${maxLength}"` : null}${extra ?? null}>
  ${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : null}
</div>`;

export const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;
