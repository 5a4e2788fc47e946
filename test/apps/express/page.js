export const stroke = "dong ";

export const page = (title, body) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><link rel="stylesheet" href="/style.css"><h1>${title}</h1>${body}</html>`;
