import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BASE_IMAGE, type BuildBench, createBuildBench } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

// Where a build step gets to: the internet, and nothing of the platform.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

/** Says of each `host:port` whether it answers; `gateway` is the host as a step sees it. */
const probe = `
  const route = require("fs").readFileSync("/proc/net/route", "utf8").split("\\n")[1].split("\\t")[2];
  const gateway = route.match(/../g).reverse().map((hex) => parseInt(hex, 16)).join(".");
  for (const place of process.argv.slice(2)) {
    const [name, port] = place.split(":");
    const socket = require("net").connect({ host: name === "gateway" ? gateway : name, port, timeout: 3000 });
    const tell = (what) => { console.log(place, "is", what); socket.destroy(); };
    socket.on("connect", () => tell("open")).on("error", () => tell("closed")).on("timeout", () => tell("closed"));
  }
`;

test("a step reaches neither the host's services nor metadata addresses", async () => {
  const service = createServer((socket) => socket.end());
  await new Promise<void>((resolve) => service.listen(0, "0.0.0.0", resolve));
  const { port } = service.address() as AddressInfo;
  const places = [`gateway:${port}`, `${bench.node.config.address}:${port}`, "169.254.169.254:80", "10.0.0.1:80"];
  const id = await bench.buildDockerfile(
    `FROM ${BASE_IMAGE}\nCOPY probe.js /\nRUN node /probe.js ${places.join(" ")}\n`,
    {
      "probe.js": probe,
    },
  );
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  for (const place of places) await waitFor(place, () => bench.log(id).includes(`${place} is closed`));
  service.close();
  await bench.removeImage(status);
});

test("steps of two builds do not reach one another", async () => {
  const server = `
    const [address] = Object.values(require("os").networkInterfaces()).flat().filter((one) => !one.internal);
    require("net").createServer((socket) => socket.end()).listen(7777, () => console.log("listens at", address.address));
    setTimeout(() => process.exit(), 15000);
  `;
  const first = await bench.buildDockerfile(`FROM ${BASE_IMAGE}\nCOPY server.js /\nRUN node /server.js\n`, {
    "server.js": server,
  });
  const address = await waitFor("the server", () => /listens at (\S+)/.exec(bench.log(first))?.[1]);
  const second = await bench.buildDockerfile(
    `FROM ${BASE_IMAGE}\nCOPY probe.js /\nRUN node /probe.js ${address}:7777\n`,
    { "probe.js": probe },
    { projectId: "p2" },
  );
  const status = await bench.outcome(second);
  expect(status.failure).toBeUndefined();
  await waitFor("the probe", () => bench.log(second).includes(`${address}:7777 is closed`));
  await bench.stop(first);
  await bench.removeImage(status);
});
