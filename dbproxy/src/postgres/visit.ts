import type { Socket } from "node:net";
import { asSession, clientTime, converse, countFailure, refuse, serverTime, type Visit } from "../doors/visit.ts";
import type { Refusal } from "../refusals.ts";
import { readBytes, speaks } from "../wire/read.ts";
import { dismiss, splice } from "../wire/splice.ts";
import { errorResponse } from "./errors.ts";
import { createReplyReader, isFailedLogin } from "./replies.ts";
import { type FirstPacket, packetBytes, readFirstPacket } from "./startup.ts";

/** TLS and GSSAPI: each may be asked for once. */
const encryptionsMax = 2;
const headBytes = 4;
/** "Not here": the network between a container and its bridge is this machine's own memory. */
const notEncrypted = Buffer.from("N");

type Startup = Extract<FirstPacket, { kind: "startup" }>;
type Cancel = Extract<FirstPacket, { kind: "cancel" }>;

/** Serves one client of Postgres's protocol to its end. */
export async function visitPostgres(visit: Visit): Promise<void> {
  const { client } = visit;
  const time = clientTime(visit);
  for (let asked = 0; ; asked += 1) {
    const packet = await readPacket(client, time);
    if (packet === null) return void client.destroy();
    const first: FirstPacket = packet === "malformed" ? { kind: "refused", why: "malformed" } : readFirstPacket(packet);
    if (first.kind === "startup") return logIn(visit, first, packet as Buffer);
    if (first.kind === "cancel") return cancel(visit, first, packet as Buffer);
    if (first.kind === "refused") return say(visit, first.why);
    if (asked === encryptionsMax) return say(visit, "malformed");
    client.write(notEncrypted);
  }
}

const say = (visit: Visit, why: Refusal): void => refuse(visit, why, errorResponse(why));

/** Null when it does not come. */
async function readPacket(client: Socket, signal: AbortSignal): Promise<Buffer | "malformed" | null> {
  const head = await readBytes(client, headBytes, signal);
  if (head === null) return null;
  const bytes = packetBytes(head);
  if (bytes === null) return "malformed";
  const rest = await readBytes(client, bytes - headBytes, signal);
  return rest === null ? null : Buffer.concat([head, rest]);
}

async function logIn(visit: Visit, { user, database }: Startup, packet: Buffer): Promise<void> {
  const { house, engine, bridge, gone } = visit;
  const entry = await house.door.admit({ engine, bridge, user, database }, gone);
  if (typeof entry === "string") return say(visit, entry);
  await asSession(visit, entry, async () => {
    const opened = await house.door.open(entry, { purpose: "session" }, gone);
    if ("refused" in opened) return say(visit, opened.refused);
    const { stream: server } = opened;
    server.write(packet);
    // As long as nothing of the server has reached the client, the client can still be told what is the matter.
    if (!(await speaks(server, serverTime(visit)))) {
      server.destroy();
      return say(visit, "away");
    }
    const forgetKey = readAlong(visit, server, entry.databaseId);
    await converse(visit, server);
    forgetKey();
  });
}

/** Learns the session's key, and whether its login failed, from what passes. The returned function forgets the key. */
function readAlong(visit: Visit, server: Socket, databaseId: string): () => void {
  const { house, bridge } = visit;
  const reader = createReplyReader();
  let forget = (): void => {};
  const read = (chunk: Buffer): void => {
    for (const reply of reader.push(chunk)) {
      if (reply.kind === "key") {
        forget();
        forget = house.cancelKeys.keep(bridge, reply.key, databaseId);
        continue;
      }
      if (reply.kind === "refused" && isFailedLogin(reply.state)) countFailure(visit, databaseId);
      server.off("data", read);
    }
  };
  server.on("data", read);
  return () => forget();
}

/** Carries a CancelRequest to the server that gave its key. Like a server's own answer, there is none. */
async function cancel(visit: Visit, { key }: Cancel, packet: Buffer): Promise<void> {
  const { house, bridge, client, gone } = visit;
  const databaseId = house.cancelKeys.find(bridge, key);
  const entry = databaseId === null ? undefined : house.table.current().byId.get(databaseId);
  if (entry === undefined) return void client.destroy();
  await asSession(visit, entry, async () => {
    const opened = await house.door.open(entry, { purpose: "cancel" }, gone);
    if ("refused" in opened) return dismiss(client, null, house.clock.abortAfter(house.serverMs));
    const { stream: server } = opened;
    server.write(packet);
    // The server closes once it has passed the signal on, and with it the client learns that this is done.
    const late = house.clock.abortAfter(house.serverMs);
    late.addEventListener("abort", () => server.destroy(), { once: true });
    await splice(client, server);
  });
}
