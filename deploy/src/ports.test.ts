import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { freePorts, takenPorts } from "./ports.ts";

test("free ports are all different and free", async () => {
  const ports = await freePorts();
  expect(new Set(Object.values(ports)).size).toBe(Object.keys(ports).length);
  expect(await takenPorts(ports)).toEqual([]);
});

test("a taken port is reported in one line with its number and the setting that moves it", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const lines = await takenPorts({ ...(await freePorts()), registry: port });
  server.close();
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(String(port));
  expect(lines[0]).toContain("SVC_PORT_REGISTRY");
});
