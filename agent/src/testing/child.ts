import { createGrpcTransport } from "@connectrpc/connect-node";
import { readConfig } from "../config.ts";
import { start } from "../start.ts";
import { linkOver } from "./link.ts";

// An agent in a process of its own, for tests that kill it. It speaks plain HTTP/2 to the test.
const baseUrl = process.env["TEST_CONTROL_URL"] ?? "";
const agent = await start(readConfig(process.env), {
  openLink: () => linkOver(createGrpcTransport({ baseUrl })),
});
await agent.ready;
process.stdout.write("ready\n");
