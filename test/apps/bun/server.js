import { Hono } from "hono";

const edition = "first edition";
const cards = { pier: "The pier at dusk.", dunes: "Dunes, and one lost hat." };
const { PORT, SVC_PUBLIC_URL } = process.env;
const page = (body) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Postcard rack</title><h1>Postcard rack</h1>${body}</html>`;

const app = new Hono();
app.get("/", (context) =>
  context.html(page(`<p>${edition}</p><footer>port ${PORT}, at ${SVC_PUBLIC_URL}, bun ${Bun.version}</footer>`)),
);
app.get("/cards/:name", (context) => {
  const name = context.req.param("name");
  return Object.hasOwn(cards, name) ? context.html(page(`<p>${cards[name]}</p>`)) : context.notFound();
});
app.notFound((context) => context.html(page("<p>Sold out.</p>"), 404));

export default { port: Number(PORT), fetch: app.fetch };
