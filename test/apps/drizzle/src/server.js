import http from "node:http";
import { asc } from "drizzle-orm";
import { database } from "./database.js";
import { plants } from "./schema.js";

/** The plants as JSON; /press/<name> adds one first. */
async function answer({ url }) {
  if (url === "/health") return "well";
  const [, name] = /^\/press\/([a-z]+)$/.exec(url) ?? [];
  if (name !== undefined) await database.insert(plants).values({ name });
  return JSON.stringify(await database.select().from(plants).orderBy(asc(plants.id)));
}

http
  .createServer(async (request, response) => {
    try {
      response.end(await answer(request));
    } catch (error) {
      response.writeHead(500).end(String(error.cause ?? error));
    }
  })
  .listen(process.env.PORT);
