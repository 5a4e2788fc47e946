import express from "express";
import { page, stroke } from "./page.js";

const edition = "first edition";
const app = express();
app.set("trust proxy", true);
app.use(express.static("public"));

app.get("/", (request, reply) => {
  const { PORT, SVC_PUBLIC_URL, NODE_ENV } = process.env;
  reply.send(
    page(
      "Bell tower",
      `<p>${edition}</p><p>port ${PORT}, at ${SVC_PUBLIC_URL}, ${NODE_ENV}, over ${request.protocol}</p>`,
    ),
  );
});
app.get("/hours/:hour", (request, reply, next) => {
  const hour = Number(request.params.hour);
  if (!Number.isInteger(hour) || hour < 1 || hour > 12) return next();
  reply.send(page(`${hour} o'clock`, `<p>${stroke.repeat(hour)}</p>`));
});
app.use((_request, reply) => {
  reply.status(404).send(page("Silence", "<p>No bell rings at this address.</p>"));
});

const server = app.listen(process.env.PORT, () => console.log(`listening on ${process.env.PORT}`));
process.once("SIGTERM", () => {
  console.log("the bells fall silent");
  server.close();
});
