import { drawStars } from "./stars.js";

const canvas = document.querySelector(".stars");
if (canvas !== null) drawStars(canvas);

const built = document.querySelector(".built");
if (built !== null) built.textContent = `Local time on the hill: ${new Date().toLocaleTimeString([], { timeStyle: "short" })}`;
