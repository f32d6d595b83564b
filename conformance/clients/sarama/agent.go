// sarama behind lines of JSON; the operations are those of ../java/Agent.java.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
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
	Total           int32              `json:"total"`
	Changes         map[string]*string `json:"changes"`
	Spec            string             `json:"spec"`
	Records         []record           `json:"records"`
	Codec           string             `json:"codec"`
	Acks            string             `json:"acks"`
	SizeMax         int                `json:"size_max"`
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
	member   *member
	config   *sarama.Config
	producer sarama.SyncProducer
}

type agent struct {
	bootstrap []string
	admin     sarama.ClusterAdmin
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

// An encoder that is nil stands for null; one of nil bytes would be an empty value.
func encoder(text *string) sarama.Encoder {
	if text == nil {
		return nil
	}
	return sarama.ByteEncoder(bytes(text))
}

func common() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Return.Errors = false
	// A broker that is restarted is away for longer than three attempts.
	config.Metadata.Retry.Max = 60
	config.Producer.Retry.Max = 300
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	return config
}

func (a *agent) keep(kept *handle) int {
	a.opened++
	a.handles[a.opened] = kept
	return a.opened
}

func (a *agent) describeTopic(name string) (any, error) {
	topics, err := a.admin.DescribeTopics([]string{name})
	if err != nil {
		return nil, err
	}
	if topics[0].Err != sarama.ErrNoError {
		return nil, topics[0].Err
	}
	seen := make([]any, len(topics[0].Partitions))
	for _, part := range topics[0].Partitions {
		seen[part.ID] = map[string]any{"partition": part.ID, "replicas": len(part.Replicas), "isr": len(part.Isr)}
	}
	return seen, nil
}

func (a *agent) describeConfigs(topic string) (any, error) {
	entries, err := a.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	if err != nil {
		return nil, err
	}
	seen := map[string]any{}
	for _, entry := range entries {
		synonyms := ""
		for _, synonym := range entry.Synonyms {
			synonyms += fmt.Sprint(" ", synonym.ConfigName, "=", synonym.ConfigValue, " ", synonym.Source)
		}
		seen[entry.Name] = fmt.Sprint(entry.Value, " ", entry.Source, " ", entry.ReadOnly, " ", entry.Sensitive, " ",
			entry.Type, synonyms)
	}
	return seen, nil
}

func (a *agent) alterConfigs(topic string, changes map[string]*string) error {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range changes {
		operation := sarama.IncrementalAlterConfigsOperationSet
		if value == nil {
			operation = sarama.IncrementalAlterConfigsOperationDelete
		}
		entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: operation, Value: value}
	}
	return a.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
}

func (a *agent) listOffset(r *request) (any, error) {
	specs := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}
	wanted, ok := specs[r.Spec]
	if !ok {
		var err error
		if wanted, err = strconv.ParseInt(r.Spec, 10, 64); err != nil {
			return nil, err
		}
	}
	offsets, err := a.admin.ListOffsets(map[string]map[int32]int64{r.Topic: {r.Partition: wanted}}, nil)
	if err != nil {
		return nil, err
	}
	found := offsets[r.Topic][r.Partition]
	// Where all went well, the error is the code 0.
	if found.Err != nil && !errors.Is(found.Err, sarama.ErrNoError) {
		return nil, found.Err
	}
	return map[string]any{"offset": found.Offset, "timestamp_ms": found.Timestamp, "leader_epoch": found.LeaderEpoch}, nil
}

func (a *agent) produce(r *request) (any, error) {
	config := common()
	config.Producer.MaxMessageBytes = r.SizeMax
	if err := config.Producer.Compression.UnmarshalText([]byte(r.Codec)); err != nil {
		return nil, err
	}
	switch r.Acks {
	case "0":
		config.Producer.RequiredAcks = sarama.NoResponse
	case "1":
		config.Producer.RequiredAcks = sarama.WaitForLocal
	default:
		idempotent(config)
	}
	producer, err := sarama.NewSyncProducer(a.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	sent := []any{}
	for _, item := range r.Records {
		out := &sarama.ProducerMessage{Topic: r.Topic, Key: encoder(item.Key), Value: encoder(item.Value)}
		if item.Timestamp != nil {
			out.Timestamp = time.UnixMilli(*item.Timestamp)
		}
		for _, header := range item.Headers {
			out.Headers = append(out.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: bytes(header[1])})
		}
		if partition, offset, err := producer.SendMessage(out); err != nil {
			sent = append(sent, map[string]any{"error": name(err)})
		} else {
			sent = append(sent, map[string]any{"partition": partition, "offset": offset})
		}
	}
	return sent, nil
}

func (a *agent) consume(r *request) (any, error) {
	config := common()
	if r.FetchSize != nil {
		config.Consumer.Fetch.Default = *r.FetchSize
	}
	consumer, err := sarama.NewConsumer(a.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(r.Topic, 0, 0)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	seen := []any{}
	deadline := time.After(timeout)
	for len(seen) < r.Count {
		select {
		case in := <-partition.Messages():
			headers := []any{}
			for _, header := range in.Headers {
				headers = append(headers, []any{string(header.Key), text(header.Value)})
			}
			seen = append(seen, map[string]any{"offset": in.Offset, "timestamp": in.Timestamp.UnixMilli(),
				"key": text(in.Key), "value": text(in.Value), "headers": headers})
		case <-deadline:
			return seen, nil
		}
	}
	return seen, nil
}

func idempotent(config *sarama.Config) {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
}

// A producer gets its id when it is made, thus a transactional one is made by `init`.
func (a *agent) openProducer(r *request) (any, error) {
	config := common()
	idempotent(config)
	kept := &handle{config: config}
	if r.TransactionalID != nil {
		config.Producer.Transaction.ID = *r.TransactionalID
		config.Producer.Transaction.Timeout = time.Duration(r.TimeoutMs) * time.Millisecond
		return a.keep(kept), nil
	}
	return a.keep(kept), a.init(kept)
}

func (a *agent) init(kept *handle) error {
	producer, err := sarama.NewSyncProducer(a.bootstrap, kept.config)
	if err == nil {
		kept.producer = producer
	}
	return err
}

func (a *agent) send(r *request) (any, error) {
	out := &sarama.ProducerMessage{Topic: r.Topic, Value: encoder(r.Value)}
	_, offset, err := a.handles[r.Handle].producer.SendMessage(out)
	if err != nil {
		return nil, err
	}
	return map[string]any{"offset": offset}, nil
}

func (a *agent) sendOffset(r *request) error {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{r.Topic: {{Partition: 0, Offset: r.Offset}}}
	metadata := a.handles[r.Consumer].member.metadata()
	return a.handles[r.Handle].producer.AddOffsetsToTxnWithGroupMetadata(offsets, metadata)
}

func (a *agent) committed(r *request) (any, error) {
	offset, err := a.committedOffset(a.handles[r.Handle].member.group, r.Topic, r.Partition)
	if err != nil || offset < 0 {
		return nil, err
	}
	return offset, nil
}

func (a *agent) committedOffset(group, topic string, partition int32) (int64, error) {
	found, err := a.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
	if err != nil {
		return -1, err
	}
	if found.Err != sarama.ErrNoError {
		return -1, found.Err
	}
	block := found.GetBlock(topic, partition)
	if block == nil {
		return -1, nil
	}
	return block.Offset, nil
}

// Commits until it shows: sarama's Commit tells nobody that it failed.
func (a *agent) commit(m *member) error {
	deadline := time.Now().Add(timeout)
	for {
		m.commit()
		missing := 0
		for partition, offset := range m.next {
			if found, err := a.committedOffset(m.group, m.topic, partition); err != nil || found != offset {
				missing++
			}
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the commit did not arrive")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (a *agent) createTopic(r *request) error {
	detail := &sarama.TopicDetail{NumPartitions: r.Partitions, ReplicationFactor: r.Replication, ConfigEntries: r.Configs}
	return a.admin.CreateTopic(r.Name, detail, r.ValidateOnly)
}

func (a *agent) close(r *request) error {
	kept := a.handles[r.Handle]
	delete(a.handles, r.Handle)
	if kept.member != nil {
		return kept.member.close()
	}
	if kept.producer != nil {
		// A producer that was fenced complains again when it is closed.
		_ = kept.producer.Close()
	}
	return nil
}

func (a *agent) perform(r *request) (any, error) {
	kept := a.handles[r.Handle]
	switch r.Op {
	case "create_topic":
		return nil, a.createTopic(r)
	case "delete_topic":
		return nil, a.admin.DeleteTopic(r.Name)
	case "create_partitions":
		return nil, a.admin.CreatePartitions(r.Name, r.Total, nil, false)
	case "describe_topic":
		return a.describeTopic(r.Name)
	case "describe_configs":
		return a.describeConfigs(r.Topic)
	case "alter_configs":
		return nil, a.alterConfigs(r.Topic, r.Changes)
	case "list_offset":
		return a.listOffset(r)
	case "produce":
		return a.produce(r)
	case "consume":
		return a.consume(r)
	case "open_consumer":
		joined, err := join(a.bootstrap, r)
		if err != nil {
			return nil, err
		}
		return a.keep(&handle{member: joined}), nil
	case "open_producer":
		return a.openProducer(r)
	case "poll":
		return kept.member.poll(r.Seconds), nil
	case "assigned":
		return kept.member.assigned(), nil
	case "commit_offsets":
		return nil, a.commit(kept.member)
	case "committed":
		return a.committed(r)
	case "init":
		return nil, a.init(kept)
	case "begin":
		return nil, kept.producer.BeginTxn()
	case "send":
		return a.send(r)
	case "send_offset":
		return nil, a.sendOffset(r)
	case "commit":
		return nil, kept.producer.CommitTxn()
	case "abort":
		return nil, kept.producer.AbortTxn()
	case "close":
		return nil, a.close(r)
	}
	return nil, errors.New("unknown operation " + r.Op)
}

// The broker's own code of the error, without what the client wraps around it.
func name(err error) string {
	var code sarama.KError
	var topic *sarama.TopicError
	var partition *sarama.TopicPartitionError
	var altered *sarama.AlterConfigError
	var described *sarama.DescribeConfigError
	switch {
	case errors.As(err, &topic):
		code = topic.Err
	case errors.As(err, &partition):
		code = partition.Err
	case errors.As(err, &altered):
		code = altered.Err
	case errors.As(err, &described):
		code = described.Err
	case errors.As(err, &code):
	default:
		return fmt.Sprintf("%T", err)
	}
	return fmt.Sprintf("error code %d", int16(code))
}

func main() {
	admin, err := sarama.NewClusterAdmin([]string{os.Args[1]}, common())
	if err != nil {
		panic(err)
	}
	a := &agent{bootstrap: []string{os.Args[1]}, admin: admin, handles: map[int]*handle{}}
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
