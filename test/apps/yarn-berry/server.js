const fastify = require("fastify");

const edition = "first edition";
const openings = { bird: "1. f4", grob: "1. g4" };
const { PORT, SVC_PUBLIC_URL } = process.env;
const page = (body) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Chess corner</title><h1>Chess corner</h1>${body}</html>`;

const app = fastify();
app.addHook("onRequest", (_request, reply, next) => {
  reply.type("text/html; charset=utf-8");
  next();
});
app.get("/", () => page(`<p>${edition}</p><footer>port ${PORT}, at ${SVC_PUBLIC_URL}</footer>`));
app.get("/openings/:name", ({ params: { name } }, reply) =>
  Object.hasOwn(openings, name) ? page(`<p>${openings[name]}</p>`) : reply.callNotFound(),
);
app.setNotFoundHandler((_request, reply) => reply.status(404).send(page("<p>An illegal move.</p>")));

app.listen({ port: Number(PORT), host: "0.0.0.0" });
