import { serve } from "@hono/node-server";
import { fruit, priceOf } from "@orchard/prices";
import { Hono } from "hono";

const edition: string = "first edition";
const { PORT, SVC_PUBLIC_URL } = process.env;
const page = (body: string) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Orchard stall</title><h1>Orchard stall</h1>${body}</html>`;

const app = new Hono();
app.get("/", (context) =>
  context.html(
    page(
      `<p>${edition}</p><ul>${fruit.map((one) => `<li><a href="/fruit/${one}">${one}</a></li>`).join("")}</ul><footer>port ${PORT}, at ${SVC_PUBLIC_URL}</footer>`,
    ),
  ),
);
app.get("/fruit/:name", (context) => {
  const price = priceOf(context.req.param("name"));
  return price === null ? context.notFound() : context.html(page(`<p>${price}</p>`));
});
app.notFound((context) => context.html(page("<p>Not sold here.</p>"), 404));

serve({ fetch: app.fetch, port: Number(PORT) });
