import { createServer } from "node:http";
import { hostname } from "node:os";

const tideMs = 12 * 3_600_000 + 25 * 60_000;

/** Where the tide stands at `now`: -1 is low water, 1 is high water. */
const tide = (now) => Math.cos(((now % tideMs) / tideMs) * 2 * Math.PI);

function page(now) {
  const level = tide(now);
  const rising = tide(now + 60_000) > level;
  const top = 150 - level * 55;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tide clock</title>
<style>
:root { font-family: ui-sans-serif, system-ui, sans-serif; }
body { margin: 0; min-height: 100vh; display: grid; place-content: center; justify-items: center; background: #f3efe6; color: #22343c; text-align: center; }
svg { width: min(22rem, 80vw); } h1 { margin: 1.25rem 0 .25rem; font-size: 1.9rem; } p { margin: .2rem; color: #5b6d74; }
code { font-size: .85rem; }
</style></head><body>
<svg viewBox="0 0 300 300" role="img" aria-label="A round window onto the sea">
<defs><clipPath id="w"><circle cx="150" cy="150" r="130"/></clipPath></defs>
<circle cx="150" cy="150" r="140" fill="#c58a4b"/><circle cx="150" cy="150" r="130" fill="#dcebf0"/>
<g clip-path="url(#w)"><circle cx="205" cy="85" r="24" fill="#ffd27a"/>
<path d="M0 ${top}q25 -14 50 0t50 0 50 0 50 0 50 0 50 0V300H0z" fill="#3d8fa8"/><path d="M0 ${top + 22}q25 14 50 0t50 0 50 0 50 0 50 0 50 0V300H0z" fill="#2a6f86"/></g>
</svg>
<h1>The tide is ${rising ? "coming in" : "going out"}</h1>
<p>Water at ${Math.round(50 + level * 50)} % of high tide</p>
<p><code>${hostname()} · Node ${process.versions.node}</code></p>
<p>This is the image example of svc.</p>
</body></html>
`;
}

const server = createServer((request, response) => {
  if (request.url === "/healthz") {
    response.writeHead(200, { "content-type": "application/json" }).end('{"ok":true}');
    return;
  }
  response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page(Date.now()));
});
server.keepAliveTimeout = 150_000;
server.listen(Number(process.env.PORT ?? 8080), "0.0.0.0");
process.once("SIGTERM", () => {
  server.close();
  server.closeIdleConnections();
});
