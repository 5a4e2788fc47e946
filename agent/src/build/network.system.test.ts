import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
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
    `FROM ${baseImage}\nCOPY probe.js /\nRUN node /probe.js ${places.join(" ")}\n`,
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
  const first = await bench.buildDockerfile(`FROM ${baseImage}\nCOPY server.js /\nRUN node /server.js\n`, {
    "server.js": server,
  });
  const address = await waitFor("the server", () => /listens at (\S+)/.exec(bench.log(first))?.[1]);
  const second = await bench.buildDockerfile(
    `FROM ${baseImage}\nCOPY probe.js /\nRUN node /probe.js ${address}:7777\n`,
    { "probe.js": probe },
    { projectId: "p2" },
  );
  const status = await bench.outcome(second);
  expect(status.failure).toBeUndefined();
  await waitFor("the probe", () => bench.log(second).includes(`${address}:7777 is closed`));
  await bench.stop(first);
  await bench.removeImage(status);
});

/**
 * Tells what it hears of strangers for as long as it runs, or calls them by what needs no network of theirs: an address
 * asked for, answers in the name of the gateway, a protocol of its own, and one that hides behind an empty VLAN tag.
 * Asks the gateway first, so that it is seen to speak and to hear.
 */
const frames = `
  use strict; use Socket;
  $| = 1;
  my $all = unpack("S", pack("n", 3));
  socket(my $socket, 17, SOCK_RAW, $all) or do { print "has no raw sockets\\n"; exit };
  sub text { open(my $file, "<", $_[0]) or die $_[0]; local $/; <$file> }
  my $own = pack("H*", text("/sys/class/net/eth0/address") =~ s/[:\\s]//gr);
  my ($gateway) = map { pack("V", hex) } text("/proc/net/route") =~ /^eth0\\t00000000\\t(\\w+)/m;
  my $index = int text("/sys/class/net/eth0/ifindex");
  my $everybody = "\\xff" x 6;
  my ($mac, $ip) = map { $_ ? pack("H*", $_) : "" } @ARGV;
  sub say_to { my ($to, $rest) = @_;
    send($socket, $to . $own . $rest, 0, pack("SnlSCCa8", 17, 0, $index, 0, 0, 6, $to)) or die "send: $!" }
  sub arp { my ($what, $from, $to_mac, $to) = @_;
    pack("nnnCCn", 0x0806, 1, 0x0800, 6, 4, $what) . $own . $from . $to_mac . $to }
  say_to($everybody, arp(1, "\\0" x 4, "\\0" x 6, $gateway));
  my $mark = "a stranger says ";
  for (1 .. ($ip ? 50 : 0)) {
    for my $to ($everybody, $mac) {
      say_to($to, arp(1, $gateway, "\\0" x 6, $ip) . $mark . "arp request");
      say_to($to, arp(2, $gateway, $mac, $ip) . $mark . "arp reply");
      say_to($to, pack("n", 0x88b5) . $mark . "anything");
      say_to($to, pack("nnn", 0x8100, 0, 0x88b5) . $mark . "tagged");
    }
  }
  alarm 300;
  while (1) {
    recv($socket, my $frame, 2000, 0);
    next if substr($frame, 6, 6) eq $own;
    print "hears the gateway\\n" if substr($frame, 12, 10) eq pack("nnnCCn", 0x0806, 1, 0x0800, 6, 4, 2) and substr($frame, 28, 4) eq $gateway;
    print "hears that $1\\n" if $frame =~ /($mark[a-z ]+)/;
    last if $ip;
  }
`;
/** Tells where it is, and then what it hears. */
const listener = `
  const { networkInterfaces } = require("os");
  const [one] = networkInterfaces().eth0;
  console.log("is at", one.mac, one.address);
  require("dgram").createSocket("udp4").on("message", (text) => console.log("hears that", String(text))).bind(7777);
  setTimeout(() => process.exit(), 300000);
`;
/** Asks for an address as any program does, and says what the kernel knows of it afterwards. */
const caller = `
  const [, , address] = process.argv;
  const gateway = require("fs").readFileSync("/proc/net/route", "utf8").split("\\n")[1].split("\\t")[2].match(/../g).reverse().map((hex) => parseInt(hex, 16)).join(".");
  const socket = require("dgram").createSocket("udp4").bind(0, () => {
    socket.setBroadcast(true);
    for (const to of [address, "255.255.255.255", gateway.replace(/\\d+\\.\\d+$/, "255.255")]) socket.send("a stranger says datagram", 7777, to, () => {});
    socket.send("x", 9, gateway, () => {});
  });
  socket.on("error", () => {});
  setTimeout(() => {
    for (const line of require("fs").readFileSync("/proc/net/arp", "utf8").split("\\n").slice(1)) {
      const [ip, , flags] = line.split(/\\s+/);
      if (flags) console.log(ip === gateway ? "gateway" : ip, flags === "0x2" ? "answers" : "is silent");
    }
    process.exit();
  }, 4500);
`;

test("no frame goes from a step of one build to a step of another, whatever it is", async () => {
  const files = { "frames.pl": frames, "listener.js": listener, "caller.js": caller };
  const first = await bench.buildDockerfile(
    `FROM ${baseImage}\nCOPY . /\nRUN perl /frames.pl & node /listener.js\n`,
    files,
  );
  const place = await waitFor("the listener", () => /is at (\S+ \S+)/.exec(bench.log(first))?.[1]);
  const [mac = "", address = ""] = place.split(" ");
  const numbers = address.split(".").map((part) => Number(part).toString(16).padStart(2, "0"));
  const target = [mac.replaceAll(":", ""), numbers.join("")].join(" ");
  const controls = /has no raw sockets|hears the gateway/;
  await waitFor("the listener to hear", () => controls.test(bench.log(first)));
  const second = await bench.buildDockerfile(
    `FROM ${baseImage}\nCOPY . /\nRUN node /caller.js ${address} && perl /frames.pl ${target}\n`,
    files,
    {
      projectId: "p2",
    },
  );
  const status = await bench.outcome(second);
  expect(status.failure).toBeUndefined();
  await waitFor("the caller", () => controls.test(bench.log(second)));
  expect(bench.log(second)).toContain("gateway answers");
  expect(bench.log(second)).toContain(`${address} is silent`);
  await bench.stop(first);
  await bench.outcome(first);
  expect(bench.log(first)).not.toContain("a stranger says");
  await bench.removeImage(status);
});
