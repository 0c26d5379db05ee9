// Registers what Grafana's application registers at its start: transformations and field properties with their processors.
// Without the processors, defaults and overrides would silently not be applied.
import * as data from '@grafana/data';

export const theme = data.createTheme({ colors: { mode: 'dark' } });

const STANDARD = 'unit decimals min max fieldMinMax displayName color thresholds mappings noValue links actions description filterable';
const CUSTOM =
  'width minWidth cellOptions align hidden hideFrom inspect drawStyle lineInterpolation lineWidth fillOpacity gradientMode lineStyle ' +
  'spanNulls showPoints pointSize stacking axisPlacement axisLabel axisSoftMin axisSoftMax scaleDistribution thresholdsStyle';
const processors: Record<string, any> = {
  displayName: data.displayNameOverrideProcessor,
  unit: data.unitOverrideProcessor,
  decimals: data.numberOverrideProcessor,
  min: data.numberOverrideProcessor,
  max: data.numberOverrideProcessor,
  thresholds: data.thresholdsOverrideProcessor,
  mappings: data.valueMappingsOverrideProcessor,
  links: data.dataLinksOverrideProcessor,
  noValue: data.stringOverrideProcessor,
};

const property = (path: string, isCustom: boolean): any => ({
  id: isCustom ? `custom.${path}` : path,
  path,
  name: path,
  isCustom,
  override: () => null,
  editor: () => null,
  process: isCustom ? (value: unknown) => value : (processors[path] ?? data.identityOverrideProcessor),
  shouldApply: () => true,
  settings: {},
});

const properties = [
  ...STANDARD.split(' ').map((path) => property(path, false)),
  ...CUSTOM.split(' ').map((path) => property(path, true)),
];

export const registry: any = {
  getIfExists: (id: string) => properties.find((known) => known.id === id),
  list: () => properties,
};

const transformers = new Map(Object.values(data.standardTransformers as any).map((known: any) => [known.id, known]));
data.standardTransformersRegistry.setInit(
  () => [...transformers.values()].map((known: any) => ({ id: known.id, name: known.name, transformation: known, editor: () => null })) as any
);
data.standardFieldConfigEditorRegistry.setInit(() => properties.filter((known) => !known.isCustom));
