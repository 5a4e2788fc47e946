import { serve } from "@hono/node-server";
import { Hono } from "hono";

const edition = "first edition";
const finds = { chanterelle: "Under beech, after rain.", parasol: "In the open, stems like snakeskin." };
const { PORT, SVC_PUBLIC_URL } = process.env;
const page = (body) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Mushroom walk</title><h1>Mushroom walk</h1>${body}</html>`;

const app = new Hono();
app.get("/", (context) => context.html(page(`<p>${edition}</p><footer>port ${PORT}, at ${SVC_PUBLIC_URL}</footer>`)));
app.get("/finds/:name", (context) => {
  const name = context.req.param("name");
  return Object.hasOwn(finds, name) ? context.html(page(`<p>${finds[name]}</p>`)) : context.notFound();
});
app.notFound((context) => context.html(page("<p>Nothing but leaves.</p>"), 404));

serve({ fetch: app.fetch, port: Number(PORT) });
