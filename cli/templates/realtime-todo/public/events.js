/** Events by channel, for server and browsers alike: each has a todo, or the id of one that was removed. */
export const events = { todos: ["changed", "removed"] };
