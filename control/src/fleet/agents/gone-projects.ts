import type { Listener } from "../../stores/db/listen.ts";
import { goneTopic } from "../cluster/topics.ts";
import type { Roster } from "../sessions/roster.ts";

/**
 * Tells the agents of this replica that projects are gone. Only so that they need not wait: each asks by itself
 * what it keeps in vain, from time to time and with every new session, so nothing is lost with this message.
 */
export function forwardGoneProjects(listen: Listener, roster: Roster): Disposable {
  return listen.on(goneTopic, () => {
    for (const session of roster.all()) session.tidy?.();
  });
}
