import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { freePorts, memberPorts, replicaPorts, takenPorts } from "./ports.ts";

test("free ports are all different and free", async () => {
  const ports = await freePorts(systemRandom);
  expect(new Set(Object.values(ports)).size).toBe(Object.keys(ports).length);
  expect(await takenPorts(ports, { ha: true, acme: true })).toEqual([]);
});

test("a platform has one replica and one member, and three of each with high availability", async () => {
  const ports = await freePorts(systemRandom);
  const { api, link, enroll, metrics } = ports;
  expect(replicaPorts(ports, false)).toEqual([{ api, link, enroll, metrics }]);
  expect(memberPorts(ports, false)).toEqual([{ client: ports.etcd, peer: ports.etcdPeer }]);
  const used = [...replicaPorts(ports, true), ...memberPorts(ports, true)].flatMap((each) => Object.values(each));
  expect(new Set(used).size).toBe(18);
});

test("the ports of further replicas matter only where there are any", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const ports = { ...(await freePorts(systemRandom)), link3: port };
  const [alone, three] = [await takenPorts(ports), await takenPorts(ports, { ha: true })];
  server.close();
  expect(alone).toEqual([]);
  expect(three).toEqual([expect.stringContaining("SVC_PORT_LINK_3")]);
});

test("a taken port is reported in one line with its number and the setting that moves it", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const lines = await takenPorts({ ...(await freePorts(systemRandom)), registry: port });
  server.close();
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(String(port));
  expect(lines[0]).toContain("SVC_PORT_REGISTRY");
});
