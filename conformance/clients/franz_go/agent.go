// franz-go behind lines of JSON; the operations are those of ../java/Agent.java.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const timeout = 30 * time.Second

type record struct {
	Value     *string     `json:"value"`
	Key       *string     `json:"key"`
	Headers   [][]*string `json:"headers"`
	Timestamp *int64      `json:"timestamp_ms"`
}

type request struct {
	Op              string             `json:"op"`
	Name            string             `json:"name"`
	Topic           string             `json:"topic"`
	Partition       int32              `json:"partition"`
	Partitions      int32              `json:"partitions"`
	Replication     int16              `json:"replication_factor"`
	Configs         map[string]*string `json:"configs"`
	ValidateOnly    bool               `json:"validate_only"`
	Total           int                `json:"total"`
	Changes         map[string]*string `json:"changes"`
	Spec            string             `json:"spec"`
	Records         []record           `json:"records"`
	Codec           string             `json:"codec"`
	Acks            string             `json:"acks"`
	SizeMax         int32              `json:"size_max"`
	FetchSize       *int32             `json:"fetch_size"`
	Count           int                `json:"count"`
	Group           string             `json:"group"`
	Instance        *string            `json:"instance"`
	Isolation       string             `json:"isolation"`
	TransactionalID *string            `json:"transactional_id"`
	TimeoutMs       int                `json:"timeout_ms"`
	Handle          int                `json:"handle"`
	Consumer        int                `json:"consumer"`
	Seconds         float64            `json:"seconds"`
	Value           *string            `json:"value"`
	Offset          int64              `json:"offset"`
}

type handle struct {
	client   *kgo.Client
	group    string
	assigned int
	last     []*kgo.Record
}

type agent struct {
	bootstrap string
	admin     *kadm.Client
	handles   map[int]*handle
	opened    int
}

// Latin-1, so that every byte is one character.
func text(data []byte) any {
	if data == nil {
		return nil
	}
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	return string(runes)
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	data := make([]byte, 0, len(*text))
	for _, r := range *text {
		data = append(data, byte(r))
	}
	return data
}

func (a *agent) keep(client *kgo.Client) (int, *handle) {
	a.opened++
	kept := &handle{client: client}
	a.handles[a.opened] = kept
	return a.opened, kept
}

func (a *agent) describeTopic(ctx context.Context, name string) (any, error) {
	topics, err := a.admin.ListTopics(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := topics[name].Err; err != nil {
		return nil, err
	}
	seen := []any{}
	for _, part := range topics[name].Partitions.Sorted() {
		seen = append(seen, map[string]any{"partition": part.Partition, "replicas": len(part.Replicas), "isr": len(part.ISR)})
	}
	return seen, nil
}

func (a *agent) describeConfigs(ctx context.Context, topic string) (any, error) {
	configs, err := a.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	found, err := configs.On(topic, nil)
	if err != nil {
		return nil, err
	}
	if found.Err != nil {
		return nil, found.Err
	}
	seen := map[string]any{}
	for _, config := range found.Configs {
		seen[config.Key] = fmt.Sprint(config.MaybeValue(), " ", config.Source, " ", config.Sensitive)
	}
	return seen, nil
}

func (a *agent) alterConfigs(ctx context.Context, topic string, changes map[string]*string) error {
	var altered []kadm.AlterConfig
	for name, value := range changes {
		op := kadm.SetConfig
		if value == nil {
			op = kadm.DeleteConfig
		}
		altered = append(altered, kadm.AlterConfig{Op: op, Name: name, Value: value})
	}
	answers, err := a.admin.AlterTopicConfigs(ctx, altered, topic)
	if err != nil {
		return err
	}
	_, err = answers.On(topic, func(answer *kadm.AlterConfigsResponse) error { return answer.Err })
	return err
}

func (a *agent) listOffset(ctx context.Context, r *request) (any, error) {
	var offsets kadm.ListedOffsets
	var err error
	switch r.Spec {
	case "earliest":
		offsets, err = a.admin.ListStartOffsets(ctx, r.Topic)
	case "latest":
		offsets, err = a.admin.ListEndOffsets(ctx, r.Topic)
	default:
		var millis int64
		if millis, err = strconv.ParseInt(r.Spec, 10, 64); err == nil {
			offsets, err = a.admin.ListOffsetsAfterMilli(ctx, millis, r.Topic)
		}
	}
	if err != nil {
		return nil, err
	}
	found, ok := offsets.Lookup(r.Topic, r.Partition)
	if !ok {
		return nil, errors.New("absent")
	}
	if found.Err != nil {
		return nil, found.Err
	}
	return map[string]any{"offset": found.Offset, "timestamp_ms": found.Timestamp, "leader_epoch": found.LeaderEpoch}, nil
}

func (a *agent) produce(ctx context.Context, r *request) (any, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	options := []kgo.Opt{kgo.SeedBrokers(a.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[r.Codec]), kgo.ProducerBatchMaxBytes(r.SizeMax), kgo.AllowAutoTopicCreation(),
		kgo.BrokerMaxWriteBytes(2 * r.SizeMax)}
	switch r.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := []any{}
	for _, item := range r.Records {
		out := &kgo.Record{Topic: r.Topic, Partition: 0, Key: bytes(item.Key), Value: bytes(item.Value)}
		if item.Timestamp != nil {
			out.Timestamp = time.UnixMilli(*item.Timestamp)
		}
		for _, header := range item.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: *header[0], Value: bytes(header[1])})
		}
		if err := client.ProduceSync(ctx, out).FirstErr(); err != nil {
			sent = append(sent, map[string]any{"error": name(err)})
		} else {
			sent = append(sent, map[string]any{"partition": out.Partition, "offset": out.Offset})
		}
	}
	return sent, nil
}

func (a *agent) consume(ctx context.Context, r *request) (any, error) {
	start := map[string]map[int32]kgo.Offset{r.Topic: {0: kgo.NewOffset().At(0)}}
	size := int32(64 << 20)
	if r.FetchSize != nil {
		size = *r.FetchSize
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(a.bootstrap), kgo.ConsumePartitions(start),
		kgo.FetchMaxPartitionBytes(size), kgo.BrokerMaxReadBytes(256<<20))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	seen := []any{}
	for len(seen) < r.Count && ctx.Err() == nil {
		client.PollRecords(ctx, r.Count-len(seen)).EachRecord(func(in *kgo.Record) {
			headers := []any{}
			for _, header := range in.Headers {
				headers = append(headers, []any{header.Key, text(header.Value)})
			}
			seen = append(seen, map[string]any{"offset": in.Offset, "leader_epoch": in.LeaderEpoch,
				"timestamp": in.Timestamp.UnixMilli(), "key": text(in.Key), "value": text(in.Value), "headers": headers})
		})
	}
	return seen, nil
}

func (a *agent) openConsumer(r *request) (any, error) {
	var kept *handle
	count := func(change int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			kept.assigned += change * len(parts[r.Topic])
		}
	}
	options := []kgo.Opt{kgo.SeedBrokers(a.bootstrap), kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(ctx context.Context, client *kgo.Client, parts map[string][]int32) {
			for kept == nil {
				time.Sleep(time.Millisecond)
			}
			count(1)(ctx, client, parts)
		}),
		kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1))}
	if r.Instance != nil {
		options = append(options, kgo.InstanceID(*r.Instance))
	}
	if r.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	number, made := a.keep(client)
	made.group = r.Group
	kept = made
	return number, nil
}

func (a *agent) openProducer(r *request) (any, error) {
	options := []kgo.Opt{kgo.SeedBrokers(a.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if r.TransactionalID != nil {
		lasting := time.Duration(r.TimeoutMs) * time.Millisecond
		options = append(options, kgo.TransactionalID(*r.TransactionalID), kgo.TransactionTimeout(lasting))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	number, _ := a.keep(client)
	return number, nil
}

func poll(kept *handle, seconds float64) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	kept.client.AllowRebalance()
	seen := []any{}
	kept.client.PollRecords(ctx, 1).EachRecord(func(in *kgo.Record) {
		kept.last = append(kept.last, in)
		seen = append(seen, map[string]any{"partition": in.Partition, "offset": in.Offset, "value": text(in.Value)})
	})
	return seen, nil
}

func (a *agent) committed(ctx context.Context, r *request) (any, error) {
	offsets, err := a.admin.FetchOffsets(ctx, a.handles[r.Handle].group)
	for err != nil && ctx.Err() == nil {
		// The admin client does not try again where a connection is gone.
		time.Sleep(100 * time.Millisecond)
		offsets, err = a.admin.FetchOffsets(ctx, a.handles[r.Handle].group)
	}
	if err != nil {
		return nil, err
	}
	if found, ok := offsets.Lookup(r.Topic, r.Partition); ok && found.At >= 0 {
		return found.At, found.Err
	}
	return nil, nil
}

// The client adds offsets to a transaction only through its own loop, thus the two requests by hand.
func (a *agent) sendOffset(ctx context.Context, r *request) error {
	producer, consumer := a.handles[r.Handle].client, a.handles[r.Consumer]
	id, epoch, err := producer.ProducerID(ctx)
	if err != nil {
		return err
	}
	name, _ := producer.OptValue(kgo.TransactionalID).(string)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = name, id, epoch, consumer.group
	added, err := add.RequestWith(ctx, producer)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return err
	}
	member, generation := consumer.client.GroupMetadata()
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch = name, id, epoch
	commit.Group, commit.MemberID, commit.Generation = consumer.group, member, generation
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = r.Offset
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = r.Topic, append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	done, err := commit.RequestWith(ctx, producer)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(done.Topics[0].Partitions[0].ErrorCode)
}

func (a *agent) perform(r *request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	kept := a.handles[r.Handle]
	switch r.Op {
	case "create_topic":
		create := a.admin.CreateTopics
		if r.ValidateOnly {
			create = a.admin.ValidateCreateTopics
		}
		answers, err := create(ctx, r.Partitions, r.Replication, r.Configs, r.Name)
		if err == nil {
			err = answers.Error()
		}
		return nil, err
	case "delete_topic":
		answer, err := a.admin.DeleteTopic(ctx, r.Name)
		if err == nil {
			err = answer.Err
		}
		return nil, err
	case "create_partitions":
		answers, err := a.admin.UpdatePartitions(ctx, r.Total, r.Name)
		if err == nil {
			err = answers.Error()
		}
		return nil, err
	case "describe_topic":
		return a.describeTopic(ctx, r.Name)
	case "describe_configs":
		return a.describeConfigs(ctx, r.Topic)
	case "alter_configs":
		return nil, a.alterConfigs(ctx, r.Topic, r.Changes)
	case "list_offset":
		return a.listOffset(ctx, r)
	case "produce":
		return a.produce(ctx, r)
	case "consume":
		return a.consume(ctx, r)
	case "open_consumer":
		return a.openConsumer(r)
	case "open_producer":
		return a.openProducer(r)
	case "poll":
		return poll(kept, r.Seconds)
	case "assigned":
		return kept.assigned, nil
	case "commit_offsets":
		return nil, kept.client.CommitRecords(ctx, kept.last...)
	case "committed":
		return a.committed(ctx, r)
	case "init":
		_, _, err := kept.client.ProducerID(ctx)
		return nil, err
	case "begin":
		return nil, kept.client.BeginTransaction()
	case "send":
		out := &kgo.Record{Topic: r.Topic, Partition: 0, Value: bytes(r.Value)}
		if err := kept.client.ProduceSync(ctx, out).FirstErr(); err != nil {
			return nil, err
		}
		return map[string]any{"offset": out.Offset}, nil
	case "send_offset":
		return nil, a.sendOffset(ctx, r)
	case "commit":
		return nil, kept.client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return nil, kept.client.EndTransaction(ctx, kgo.TryAbort)
	case "close":
		kept.client.CloseAllowingRebalance()
		delete(a.handles, r.Handle)
		return nil, nil
	}
	return nil, errors.New("unknown operation " + r.Op)
}

// The broker's own name of the error, without what the client wraps around it.
func name(err error) string {
	var told *kerr.Error
	if errors.As(err, &told) {
		return told.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return fmt.Sprintf("%T", err)
}

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	if err != nil {
		panic(err)
	}
	a := &agent{bootstrap: os.Args[1], admin: kadm.NewClient(client), handles: map[int]*handle{}}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		answer := map[string]any{}
		if ok, err := a.perform(&r); err != nil {
			answer["error"] = name(err)
		} else {
			answer["ok"] = ok
		}
		told, _ := json.Marshal(answer)
		fmt.Println(string(told))
	}
}
