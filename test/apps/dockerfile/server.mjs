import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const edition = "first edition";
const stars = JSON.parse(readFileSync("stars.json", "utf8"));
const { PORT, SVC_PUBLIC_URL } = process.env;
const page = (body) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Star count</title><h1>Star count</h1>${body}</html>`;

createServer(({ url }, reply) => {
  const name = /^\/constellations\/(\w+)$/.exec(url)?.[1];
  const [status, body] =
    url === "/"
      ? [200, `<p>${edition}</p><footer>port ${PORT}, at ${SVC_PUBLIC_URL}</footer>`]
      : Object.hasOwn(stars, name ?? "")
        ? [200, `<p>${name}: ${stars[name]} bright stars</p>`]
        : [404, "<p>Dark sky.</p>"];
  reply.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(page(body));
}).listen(Number(PORT));
