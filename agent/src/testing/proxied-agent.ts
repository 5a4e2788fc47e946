import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "./agent.ts";
import { pushApp } from "./apps.ts";
import { createTestControl, type TestControl } from "./control.ts";
import { type EngineProxy, startEngineProxy } from "./engine-proxy.ts";
import { startRegistry } from "./registry.ts";

/** An agent whose engine is behind a door that a test plays with, and an image of a script that Node runs. */
export interface ProxiedAgent extends AsyncDisposable {
  node: TestNode;
  control: TestControl;
  proxy: EngineProxy;
  agent: Agent;
  image: string;
}

export async function startProxiedAgent(env: Record<string, string>, script: string): Promise<ProxiedAgent> {
  await using stack = new AsyncDisposableStack();
  const registry = stack.use(await startRegistry());
  const node = stack.use(await createTestNode(env));
  const control = createTestControl({ registryHost: registry.host });
  const proxy = stack.use(await startEngineProxy(node.config.dockerSocket));
  const image = await pushApp(node.engine, registry.host, script);
  const config = { ...node.config, dockerSocket: proxy.socketPath };
  const agent = stack.use(await start(config, { openLink: control.openLink }));
  await agent.ready;
  const all = stack.move();
  return { node, control, proxy, agent, image, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
