import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import { asSession, clientTime, converse, countFailure, refuse, serverTime, type Visit } from "../doors/visit.ts";
import type { Refusal } from "../refusals.ts";
import { readBytes } from "../wire/read.ts";
import { agreed, isKept } from "./capabilities.ts";
import { nativePlugin, readGreeting, saltBytes, writeGreeting } from "./greeting.ts";
import {
  errorNumber,
  errorPacket,
  headBytes,
  isFailedLogin,
  kinds,
  packet,
  readHead,
  switchedPlugin,
  switchRequest,
} from "./packet.ts";
import { type Response, readResponse, responseMaxBytes, writeResponse } from "./response.ts";

interface Packet {
  sequence: number;
  payload: Buffer;
}

/** Numbers of the login's packets, as the client counts them: greeting, response, switch, proof. */
const numbers = { greeting: 0, response: 1, switch: 2, proof: 3 } as const;
/** The server never sees the switch and its answer: what it counts is so much behind. */
const hidden = 2;
/** A server may ask once for another plugin, whose proof may have some rounds. */
const roundsMax = 8;
/** Plugins whose proof tells nobody the password. */
const plugins: readonly string[] = [nativePlugin, "client_ed25519", "parsec"];

/**
 * Serves one client of MariaDB's protocol to its end. Here the server speaks first, and what the client then proves depends on
 * the salt in it; but who the client is, and so which server it is to reach, it says only in its answer. So it is
 * greeted here with a salt of no use, and once its server is known, asked to prove itself anew, with the salt of that.
 */
export async function visitMariadb(visit: Visit): Promise<void> {
  const { client, house, engine, bridge, gone } = visit;
  client.write(packet(numbers.greeting, writeGreeting(freshSalt())));
  const first = await readPacket(client, clientTime(visit));
  if (first === null) return void client.destroy();
  const say = (why: Refusal): void => refuse(visit, why, errorPacket(numbers.switch, why));
  const response = first === "malformed" || first.sequence !== numbers.response ? null : readResponse(first.payload);
  if (response === null) return say("malformed");
  const capabilities = agreed(response.capabilities);
  if (capabilities === null) return say("unsupported");
  const { user, database } = response;
  const entry = await house.door.admit({ engine, bridge, user, database }, gone);
  if (typeof entry === "string") return say(entry);
  await asSession(visit, entry, () => logIn(visit, entry, { ...response, capabilities }));
}

async function logIn(visit: Visit, entry: DatabaseProxyEntry, response: Response): Promise<void> {
  const { client, house, gone } = visit;
  const opened = await house.door.open(entry, { purpose: "session" }, gone);
  const say = (why: Refusal, sequence = numbers.switch as number): void =>
    refuse(visit, why, errorPacket(sequence, why));
  if ("refused" in opened) return say(opened.refused);
  const { stream: server } = opened;
  const giveUp = (why: Refusal, sequence?: number): void => {
    server.destroy();
    say(why, sequence);
  };
  const greetingPacket = await readPacket(server, serverTime(visit));
  if (greetingPacket === null || greetingPacket === "malformed") return giveUp("away");
  const greeting = readGreeting(greetingPacket.payload);
  // A server that has no place, or is about to end, says so in place of its greeting.
  if (greeting === null) return giveUp(errorNumber(greetingPacket.payload) === 1040 ? "limit" : "away");
  if (!isKept(response.capabilities, greeting.capabilities)) return giveUp("unsupported");

  client.write(packet(numbers.switch, switchRequest(nativePlugin, greeting.salt)));
  const proof = await readPacket(client, clientTime(visit));
  if (proof === null) return void server.destroy();
  if (proof === "malformed" || proof.sequence !== numbers.proof || proof.payload.length > 0xfa) {
    return giveUp("malformed", numbers.proof + 1);
  }
  server.write(packet(numbers.response, writeResponse({ ...response, auth: proof.payload, plugin: nativePlugin })));

  const outcome = await proveOn(visit, server);
  if (outcome === "in") return converse(visit, server);
  if (outcome.isFailedLogin) countFailure(visit, entry.databaseId);
  server.destroy();
  refuse(visit, outcome.why, outcome.words);
}

type Outcome = "in" | { why: Refusal; words: Buffer; isFailedLogin: boolean };

/** Carries the rest of the login between client and server, each with its own numbers of packets. */
async function proveOn(visit: Visit, server: Socket): Promise<Outcome> {
  const { client } = visit;
  let number: number = numbers.proof;
  const broken = (why: Refusal): Outcome => ({ why, words: errorPacket(number + 1, why), isFailedLogin: false });
  for (let round = 0; round < roundsMax; round += 1) {
    const reply = await readPacket(server, serverTime(visit));
    if (reply === null || reply === "malformed") return broken("away");
    number = reply.sequence + hidden;
    const words = packet(number, reply.payload);
    if (reply.payload[0] === kinds.ok) {
      client.write(words);
      return "in";
    }
    if (reply.payload[0] === kinds.error) {
      return { why: "user", words, isFailedLogin: isFailedLogin(errorNumber(reply.payload)) };
    }
    const plugin = switchedPlugin(reply.payload);
    if (reply.payload[0] !== kinds.more && (plugin === null || !plugins.includes(plugin))) return broken("unsupported");
    client.write(words);
    const proof = await readPacket(client, clientTime(visit));
    if (proof === null || proof === "malformed" || proof.sequence !== number + 1) return broken("malformed");
    number = proof.sequence;
    server.write(packet(proof.sequence - hidden, proof.payload));
  }
  return broken("malformed");
}

/** Null when none comes. */
async function readPacket(socket: Socket, signal: AbortSignal): Promise<Packet | "malformed" | null> {
  const head = await readBytes(socket, headBytes, signal);
  if (head === null) return null;
  const { bytes, sequence } = readHead(head);
  if (bytes > responseMaxBytes) return "malformed";
  const payload = await readBytes(socket, bytes, signal);
  return payload === null ? null : { sequence, payload };
}

/** Random bytes of which none is zero, which would end it for some clients. */
const freshSalt = (): Buffer => randomBytes(saltBytes).map((byte) => (byte % 127) + 1) as Buffer;
