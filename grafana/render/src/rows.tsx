// The two panels that Grafana has no library of: heatmap (one row a series) and state timeline. Drawn on a canvas;
// palette, colours and texts are those that Grafana would take.
import { getFieldDisplayName } from '@grafana/data';
import { interpolateViridis } from 'd3-scale-chromatic';
import React from 'react';

const BELOW = 22;
const FONT = '12px Inter, Helvetica, Arial, sans-serif';

export function Rows({ panel, frames, width, height, from, to }: any) {
  const canvas = React.useRef<HTMLCanvasElement>(null);
  React.useEffect(() => {
    const pen = canvas.current!.getContext('2d')!;
    const scale = 2;
    canvas.current!.width = width * scale;
    canvas.current!.height = height * scale;
    pen.scale(scale, scale);
    pen.font = FONT;
    draw(pen, panel, panel.type === 'heatmap' ? frames : frames.slice(0, panel.options.perPage), width, height, from, to);
  }, []);
  return <canvas ref={canvas} style={{ width, height }} />;
}

function draw(pen: any, panel: any, frames: any[], width: number, height: number, from: number, to: number) {
  const names = frames.map((frame) => getFieldDisplayName(frame.fields[1], frame, frames));
  const left = Math.max(...names.map((name) => pen.measureText(name).width)) + 12;
  const isHeatmap = panel.type === 'heatmap';
  const bottom = isHeatmap ? 2 * BELOW : 2 * BELOW;
  const high = (height - bottom) / frames.length;
  const x = (time: number) => left + ((width - left - 4) * (time - from)) / (to - from);
  frames.forEach((frame, row) => {
    const top = high * row;
    pen.fillStyle = '#ccccdc';
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    pen.fillText(names[row], left - 6, top + high / 2);
    (isHeatmap ? cells : stretches)(pen, panel, frame, x, top, high);
  });
  pen.fillStyle = '#9a9aa5';
  pen.textAlign = 'center';
  for (let tick = 0; tick <= 6; tick++) {
    const time = from + ((to - from) * tick) / 6;
    const nudge = tick === 0 ? 16 : tick === 6 ? -16 : 0;
    pen.fillText(new Date(time).toISOString().slice(11, 16), x(time) + nudge, height - bottom + BELOW / 2);
  }
  (isHeatmap ? scaleBelow : legendBelow)(pen, panel, frames, left, height - BELOW / 2);
}

function cells(pen: any, panel: any, frame: any, x: any, top: number, high: number) {
  const [times, values] = [frame.fields[0].values, frame.fields[1].values];
  const most = panel.options.color.max ?? 1;
  for (let at = 0; at + 1 < times.length; at++) {
    if (values[at] != null) {
      pen.fillStyle = interpolateViridis(Math.max(0, Math.min(1, values[at] / most)));
      pen.fillRect(x(times[at]), top + 0.5, x(times[at + 1]) - x(times[at]) - 0.4, high - 1);
    }
  }
}

function stretches(pen: any, panel: any, frame: any, x: any, top: number, high: number) {
  const [times, field] = [frame.fields[0].values, frame.fields[1]];
  for (let at = 0; at + 1 < times.length; ) {
    let end = at + 1;
    while (end + 1 < times.length && field.values[end] === field.values[at]) {
      end++;
    }
    const shown = field.display(field.values[at]);
    const wide = x(times[end]) - x(times[at]);
    if (field.values[at] != null) {
      pen.globalAlpha = 0.85;
      pen.fillStyle = shown.color;
      pen.fillRect(x(times[at]), top + high * 0.08, wide, high * 0.85);
      pen.globalAlpha = 1;
    }
    if (field.values[at] != null && wide > pen.measureText(shown.text).width + 8) {
      pen.fillStyle = dark(shown.color) ? '#ffffff' : '#111217';
      pen.textAlign = 'left';
      pen.fillText(shown.text, x(times[at]) + 4, top + high / 2);
    }
    at = end;
  }
}

function scaleBelow(pen: any, panel: any, _: any[], left: number, y: number) {
  const wide = 160;
  pen.textAlign = 'left';
  pen.fillText('0 %', left, y);
  for (let at = 0; at < wide; at++) {
    pen.fillStyle = interpolateViridis(at / wide);
    pen.fillRect(left + 28 + at, y - 5, 1.5, 10);
  }
  pen.fillStyle = '#9a9aa5';
  pen.fillText(`${100 * (panel.options.color.max ?? 1)} %`, left + 34 + wide, y);
}

function legendBelow(pen: any, _: any, frames: any[], left: number, y: number) {
  const seen = new Map<string, string>();
  for (const field of frames.map((frame) => frame.fields[1])) {
    for (const value of field.values) {
      if (value != null) {
        const shown = field.display(value);
        seen.set(shown.text, shown.color);
      }
    }
  }
  pen.textAlign = 'left';
  for (const [text, colour] of seen) {
    pen.fillStyle = colour;
    pen.fillRect(left, y - 2, 14, 4);
    pen.fillStyle = '#ccccdc';
    pen.fillText(text, left + 18, y);
    left += pen.measureText(text).width + 36;
  }
}

function dark(colour: string): boolean {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 140;
}
