import { expect, test } from "vitest";
import { parseNameservers, renderFirewall } from "./firewall.ts";

test("the rules let resolvers through before private ranges are closed", () => {
  const lines = renderFirewall(["10.0.0.2"], null).chains.split("\n");
  const resolver = lines.indexOf("-A SVC-FORWARD -d 10.0.0.2/32 -p udp --dport 53 -j RETURN");
  const closed = lines.findIndex((line) => line.startsWith("-A SVC-FORWARD -d 10.0.0.0/8 -j REJECT"));
  expect(resolver).toBeGreaterThan(0);
  expect(closed).toBeGreaterThan(resolver);
});

test.each(["169.254.0.0/16", "192.168.0.0/16", "172.16.0.0/12", "100.64.0.0/10", "224.0.0.0/3"])(
  "%s is closed",
  (range) => {
    expect(renderFirewall([], null).chains).toContain(`-A SVC-FORWARD -d ${range} -j REJECT`);
  },
);

test("nothing new reaches the host itself but the ports of databases, at the address of its own bridge", () => {
  const input = renderFirewall([], null)
    .chains.split("\n")
    .filter((line) => line.startsWith("-A SVC-INPUT"));
  expect(input).toEqual([
    "-A SVC-INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
    "-A SVC-INPUT -i svc+ -p tcp -m multiport --dports 5432,3306 -m addrtype --dst-type LOCAL --limit-iface-in -j ACCEPT",
    "-A SVC-INPUT -j REJECT --reject-with icmp-port-unreachable",
  ]);
});

test("containers are begun to be spoken to where they are published on the node's address, and nowhere else", () => {
  const { chains, jumps } = renderFirewall([], null);
  expect(chains.split("\n").filter((line) => line.startsWith("-A SVC-ENTER"))).toEqual([
    "-A SVC-ENTER -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
    "-A SVC-ENTER -m physdev --physdev-is-bridged -j RETURN",
    "-A SVC-ENTER -m conntrack --ctstate DNAT --ctorigdst 127.0.0.0/8 -j DROP",
    "-A SVC-ENTER -m conntrack ! --ctstate DNAT -j DROP",
  ]);
  expect(jumps).toContainEqual(["DOCKER-USER", "-o", "svc+", "-j", "SVC-ENTER"]);
});

test("the build bridge gets the same rules when there is one", () => {
  const names = (bridge: string | null) => renderFirewall([], bridge).jumps.map((jump) => jump[2]);
  expect(names(null)).toEqual(["svc+", "svc+", "svc+"]);
  expect(names("docker0")).toEqual(["svc+", "svc+", "docker0", "docker0", "svc+"]);
});

test("steps of builds do not reach one another, containers of one project do", () => {
  const lines = renderFirewall([], "docker0").chains.split("\n");
  const closed = lines.findIndex((line) => line.includes("-i docker0 -m physdev --physdev-is-bridged -j REJECT"));
  const open = lines.indexOf("-A SVC-FORWARD -m physdev --physdev-is-bridged -j RETURN");
  expect(closed).toBeGreaterThan(0);
  expect(open).toBeGreaterThan(closed);
  expect(renderFirewall([], null).chains).not.toContain("physdev-is-bridged -j REJECT");
});

test("nameservers are read once each, loopback ones left out", () => {
  const text = "search x.test\nnameserver 10.1.1.1\nnameserver 127.0.0.53\nnameserver 10.1.1.1 \nnameserver fd00::1\n";
  expect(parseNameservers(text, 4)).toEqual(["10.1.1.1"]);
  expect(parseNameservers(text, 6)).toEqual(["fd00::1"]);
});
