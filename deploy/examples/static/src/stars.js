const starsPerPixel = 1 / 2600;

/** The same sky for everybody: a small pseudo-random generator instead of Math.random. */
function sequence(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

/** Fills the canvas with stars and keeps them when the window changes size. */
export function drawStars(canvas) {
  const paint = () => {
    const { clientWidth: width, clientHeight: height } = canvas;
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const random = sequence(1931);
    const count = Math.round(width * height * starsPerPixel);
    for (let star = 0; star < count; star += 1) {
      const size = 0.4 + random() ** 4 * 1.8;
      context.globalAlpha = 0.25 + random() * 0.6;
      context.fillStyle = random() > 0.85 ? "#ffd9a0" : "#dfe7ff";
      context.beginPath();
      context.arc(random() * width, random() * height, size, 0, Math.PI * 2);
      context.fill();
    }
  };
  paint();
  window.addEventListener("resize", paint);
}
